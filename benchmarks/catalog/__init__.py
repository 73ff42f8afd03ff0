"""Benchmarks of the Iceberg REST catalog, beside the project's reference server and Nessie."""
