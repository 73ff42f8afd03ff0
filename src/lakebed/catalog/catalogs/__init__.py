"""Catalogs and table buckets: create, list, get, update and delete; their base locations and properties."""
