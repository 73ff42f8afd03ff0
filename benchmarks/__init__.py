"""Benchmarks of Lakebed and its peers. README.md says how to run them and how to read the results."""
