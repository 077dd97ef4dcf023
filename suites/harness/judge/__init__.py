"""What numbers say: right or wrong, ratios with intervals, verdicts. Reads no file of its own accord."""
