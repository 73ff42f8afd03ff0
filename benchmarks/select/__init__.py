"""Benchmarks of S3 Select against MinIO, and against DuckDB on the same files."""
