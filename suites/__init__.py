"""The harness and what it runs: declared suites, models, backends, measurements, results. Nothing is imported here."""
