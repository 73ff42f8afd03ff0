"""Benchmarks of maintenance planning and of the pipeline's Spark jobs."""
