"""For those who work on the engine: what writes pages and headers from its tables, and looks at its structure."""
