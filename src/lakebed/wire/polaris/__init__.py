"""Extensions of Apache Polaris to the Iceberg REST catalog API: policies and generic tables."""
