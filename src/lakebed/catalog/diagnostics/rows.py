"""SQL statements of diagnostics: counts, and rows that the catalog's other statements do not read."""

from __future__ import annotations

from typing import Final

COMMIT_COUNTS: Final = (
    "SELECT count(*), count(DISTINCT CASE WHEN writer = '' THEN NULL ELSE writer END), min(committed_ms),"
    " max(committed_ms) FROM entry_commits WHERE entry = ?"
)
COMMITTED_FILES: Final = "SELECT metadata_at, previous_at FROM entry_commits WHERE entry = ?"
DELETE_COMMIT: Final = "DELETE FROM entry_commits WHERE entry = ? AND generation = ?"
NAMESPACE_CREATED: Final = "SELECT created_ms FROM namespaces WHERE id = ?"
LEASE_HOLDERS: Final = (
    "SELECT DISTINCT holder FROM leases WHERE expires_ms > ? AND holder <> '' ORDER BY holder LIMIT 1000"
)

# -- a whole catalog - --------------------------------------------------------------------------------------------

NAMESPACE_COUNT: Final = "SELECT count(*) FROM namespaces WHERE warehouse = ?"
ENTRY_COUNTS: Final = "SELECT kind, dropped_ms IS NULL, count(*) FROM entries WHERE warehouse = ? GROUP BY 1, 2"
COMMIT_COUNT: Final = "SELECT count(*) FROM entry_commits c JOIN entries e ON e.id = c.entry WHERE e.warehouse = ?"
CLIENT_ID_COUNT: Final = (
    "SELECT count(*) FROM entry_commits c JOIN entries e ON e.id = c.entry"
    " WHERE e.warehouse = ? AND c.commit_id <> c.version_token"
)
LOCATIONS: Final = (
    "SELECT prefix, entry FROM entry_locations WHERE bucket = ? AND prefix >= ? AND prefix > ? ORDER BY prefix LIMIT ?"
)
UNPLACED_COUNT: Final = (
    "SELECT count(*) FROM entries e WHERE e.warehouse = ? AND e.kind <> 'generic-table'"
    " AND NOT EXISTS (SELECT 1 FROM entry_locations l WHERE l.entry = e.id)"
)
SHARED_UUIDS: Final = (
    "SELECT count(*) FROM (SELECT uuid FROM entries WHERE warehouse = ? AND uuid <> '' GROUP BY uuid"
    " HAVING count(*) > 1) twice"
)
UNLOGGED_COUNT: Final = (
    "SELECT count(*) FROM entries e WHERE e.warehouse = ? AND e.kind <> 'generic-table'"
    " AND NOT EXISTS (SELECT 1 FROM entry_commits c"
    " WHERE c.entry = e.id AND c.generation = e.generation AND c.metadata_at = e.metadata_at"
    " AND c.version_token = e.version_token)"
)
AHEAD_COUNT: Final = (
    "SELECT count(*) FROM entry_commits c JOIN entries e ON e.id = c.entry"
    " WHERE e.warehouse = ? AND c.generation > e.generation"
)
POINTERS_AFTER: Final = (
    "SELECT id, kind, name, uuid, metadata_at, version_token, generation FROM entries"
    " WHERE warehouse = ? AND id > ? ORDER BY id LIMIT ?"
)
