"""What to measure: cases, suites and the expressions that choose among them."""
