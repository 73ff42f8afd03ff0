"""The Iceberg REST catalog and its table-bucket extensions, as clients speak to it."""
