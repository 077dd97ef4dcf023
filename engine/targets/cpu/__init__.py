"""The C library as a target."""
