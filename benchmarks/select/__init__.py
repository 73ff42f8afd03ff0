"""Select beside MinIO's, and beside DuckDB on the same file."""
