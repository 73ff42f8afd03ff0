"""Federated catalogs (ADR 24, ADR 55): backed by an external Iceberg REST catalog.

Their content is in the external catalog. This server authorizes requests before it forwards them.
"""
