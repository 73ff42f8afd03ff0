"""Benchmarks of streams against Apache Fluss: same clients, same rows, same acknowledgements."""
