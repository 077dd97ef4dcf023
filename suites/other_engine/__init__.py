"""Runs under the interpreter of another version of the engine. Importing it imports neither engine nor backends."""
