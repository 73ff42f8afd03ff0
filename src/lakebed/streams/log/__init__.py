"""Logs: record batches by offset, one log per bucket."""
