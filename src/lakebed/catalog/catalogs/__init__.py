"""Catalogs and table buckets: create, list, describe, change and drop; their base locations and properties."""
