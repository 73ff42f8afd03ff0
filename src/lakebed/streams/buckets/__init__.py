"""Open buckets of stream tables: opened on first use, maintained and closed with their tables."""
