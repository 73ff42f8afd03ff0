"""Statements of connections and of synthetic entities."""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import Row

from .model import CatalogConnection, decode_config

_CONNECTION: Final = "catalog, name, revision, config, secrets, created_ms, updated_ms"
FIND: Final = f"SELECT {_CONNECTION} FROM catalog_connections WHERE name = ?"  # noqa: S608  # constants only, here and below
ANY: Final = "SELECT 1 FROM catalog_connections LIMIT 1"
ALL: Final = f"SELECT {_CONNECTION} FROM catalog_connections ORDER BY name"  # noqa: S608
PUT: Final = (
    f"INSERT INTO catalog_connections ({_CONNECTION}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (catalog) DO UPDATE SET revision = excluded.revision, config = excluded.config,"
    " secrets = excluded.secrets, updated_ms = excluded.updated_ms"
)
DELETE: Final = "DELETE FROM catalog_connections WHERE catalog = ?"

# -- synthetic entities ---------------------------------------------------------------------------------------------

SYNTHETIC_ENTRY: Final = (
    "SELECT e.id, e.kind FROM namespaces n JOIN entries e ON e.namespace = n.id AND e.name = ?"
    " WHERE n.warehouse = ? AND n.path = ?"
)
SYNTHETIC_ENTRIES_IN: Final = "SELECT id FROM entries WHERE namespace = ?"
NAMESPACES_WITHIN: Final = (
    "SELECT id FROM namespaces WHERE warehouse = ? AND (path = ? OR (path >= ? AND path < ?)) ORDER BY path DESC"
)
"""A namespace and all inside it, innermost first."""
DELETE_ENTRIES: Final = "DELETE FROM entries WHERE warehouse = ?"
DELETE_NAMESPACES: Final = "DELETE FROM namespaces WHERE warehouse = ?"


def connection_from(row: Row) -> CatalogConnection:
    """A connection."""
    catalog, name, revision, config, sealed, created_ms, updated_ms = row
    return CatalogConnection(catalog, name, revision, decode_config(config), sealed, created_ms, updated_ms)
