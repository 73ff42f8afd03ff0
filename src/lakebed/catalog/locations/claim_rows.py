"""The statements about directories that are promised or retained, and about what lies in a directory."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..rows import CATALOG_SELECTED


class Kept(NamedTuple):
    """The statements about one kind of directories. The first column is the directory."""

    at_or_before: str
    within: str
    delete: str


def _kept(table: str, columns: str) -> Kept:
    chosen = f"SELECT {columns} FROM {table}"  # noqa: S608  # constants only
    return Kept(
        f"{chosen} WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1",
        f"{chosen} WHERE bucket = ? AND prefix >= ? AND prefix < ? ORDER BY prefix",
        f"DELETE FROM {table} WHERE bucket = ? AND prefix = ?",  # noqa: S608
    )


PROMISED: Final = _kept("promised_locations", "prefix, principal, was_empty, expires_ms")
RETAINED: Final = _kept("retained_locations", "prefix, dropped_ms")

INSERT_PROMISE: Final = (
    "INSERT INTO promised_locations (bucket, prefix, principal, warehouse, namespace, name, was_empty, expires_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
RESERVATIONS_OF_KEY: Final = (
    f"SELECT l.prefix, l.principal, l.entry, l.at_ms, l.namespace, l.name, {CATALOG_SELECTED} FROM ("  # noqa: S608
    "SELECT * FROM (SELECT prefix, principal, '' AS entry, expires_ms AS at_ms, namespace, name, warehouse"
    " FROM promised_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1) p"
    " UNION ALL "
    "SELECT * FROM (SELECT prefix, principal, entry, dropped_ms AS at_ms, namespace, name, warehouse"
    " FROM retained_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1) r"
    ") l JOIN warehouses w ON w.id = l.warehouse"
)
"""The last promised and the last retained directory at or before a key."""
DELETE_EXPIRED: Final = "DELETE FROM promised_locations WHERE expires_ms <= ?"

INSERT_RETAINED: Final = (
    "INSERT INTO retained_locations (bucket, prefix, entry, principal, warehouse, namespace, name, dropped_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
RETAINED_OF: Final = (
    "SELECT prefix, principal, warehouse, namespace, name, dropped_ms FROM retained_locations WHERE entry = ?"
)

OCCUPIED: Final = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM objects WHERE bucket = ? AND key >= ? AND key < ?)"
    " OR EXISTS (SELECT 1 FROM versions WHERE bucket = ? AND key >= ? AND key < ?)"
    " OR EXISTS (SELECT 1 FROM uploads WHERE bucket = ? AND key >= ? AND key < ? AND finished_ms IS NULL)"
)
