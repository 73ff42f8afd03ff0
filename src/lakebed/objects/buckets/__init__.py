"""Buckets: create, list and delete, and their settings."""
