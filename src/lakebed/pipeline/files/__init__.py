"""Data files: listed, read, adopted, rewritten and counted by jobs."""
