"""Benchmarks of event delivery."""
