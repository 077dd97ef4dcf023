"""What to check of each family of Triton kernels: ragged sizes for the interpreter, real sizes for the compiler.

A file here has `RAGGED` and `REAL`, tuples of `tests.targets.on_triton.steps.Case`. Tests find the files by themselves.
"""
