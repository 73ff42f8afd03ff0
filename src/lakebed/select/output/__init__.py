"""Output formats: results as CSV, JSON, Parquet or Arrow."""
