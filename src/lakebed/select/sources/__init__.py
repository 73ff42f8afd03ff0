"""Sources of bytes: one object or all objects under a prefix, decompressed and cut into blocks of records."""
