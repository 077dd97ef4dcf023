"""How cases are declared, run, verified, timed, stored and shown. Knows no backend and no model by name."""
