"""Execution on DataFusion: relations, scans, queries and cached plans."""
