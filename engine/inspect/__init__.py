"""Looks inside of programs and compares results. Uses all of the flow, and is used by nothing in it."""
