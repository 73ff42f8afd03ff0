"""Maintenance of tables: what no snapshot needs any more is found, and removed where that was asked for.

Pure decisions are in `planner`, `expiration`, `compaction` and `machine`; what they are made of is read by `walking`
and `surveying`; `removal` and `quarantine` carry them out. Data files are never read, and never rewritten.
"""
