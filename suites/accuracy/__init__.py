"""What a precision costs in accuracy, on real weights and real data. Times nothing.

`tasks.py` says which data a model reads and how its outputs are scored, `estimates.py` computes intervals,
`evaluate.py` runs backends on the data of a task, `sensitivity.py` quantises one layer at a time, `tables.py` prints.
Knows backends by their registry only, and no command.
"""
