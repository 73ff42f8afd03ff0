"""The pipeline: how long planning takes, and what Spark does for tables."""
