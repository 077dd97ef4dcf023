"""Forwards of models in NumPy, as one writes them by hand. Each takes the weights of a module and imports no torch."""
