"""asv's front: bare ``asv run`` imports every file of this folder, so nothing heavy is imported at their tops."""
