"""Benchmarks of authorization, policies, tokens and filtered lists."""
