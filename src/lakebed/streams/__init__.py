"""Streams: log tables and primary-key tables, written record by record and read as they grow."""
