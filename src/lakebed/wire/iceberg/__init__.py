"""The Iceberg REST catalog API, with extensions for table buckets."""
