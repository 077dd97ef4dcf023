"""What runs an artifact: a folder or a module for each target, and what all of them share."""
