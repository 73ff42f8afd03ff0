"""Audit records of requests: redaction of what is logged, and entries for refused requests."""
