"""Records for people: tables and progress. Nothing that measures imports it."""
