"""Spark: sessions, configuration, versions, packages, and Iceberg's procedures and Java API."""
