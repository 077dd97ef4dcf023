"""One run from plan to records: worker processes, rounds, generations, ablations."""
