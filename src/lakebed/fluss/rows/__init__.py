"""Rows in Fluss's compacted and indexed formats: one field, one row, or many rows as Arrow columns."""
