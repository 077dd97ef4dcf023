"""Inside of a worker process, and about the machine: the clock, contention, roofs."""
