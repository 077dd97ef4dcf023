"""Triton kernels, one family a file. A file imports triton, so nothing here is imported before it is needed."""
