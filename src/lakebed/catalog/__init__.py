"""The Iceberg catalog: catalogs, namespaces, tables, views, commits, scans, policies and maintenance."""
