"""The Iceberg catalog: catalogs, namespaces, tables, views, commits, and what keeps them in order."""
