"""The Iceberg catalog: warehouses, namespaces, tables and views as services."""
