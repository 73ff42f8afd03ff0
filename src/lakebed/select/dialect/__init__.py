"""The SQL dialect of S3 Select: parsing, binding to DataFusion expressions, functions and timestamps."""
