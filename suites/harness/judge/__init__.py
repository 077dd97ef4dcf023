"""What numbers say: right or wrong, speeds with intervals, verdicts. Reads no file of its own accord."""
