"""Logs: batches of records by offset, one log a bucket."""
