"""Benchmarks of the Iceberg REST catalog against Iceberg's reference server and Nessie."""
