"""Triton kernels, one family a file. Importing a file imports triton; nothing here is imported before a GPU is asked for."""
