"""The catalog's SQL statements, and conversions from rows. Only this module knows the columns."""

from __future__ import annotations

from typing import Final

from lakebed.governance.policies import RESTRICTION_TYPES
from lakebed.meta.seam import Row
from lakebed.objects.buckets.bucket import Bucket, bucket_from
from lakebed.objects.rows import BUCKET_COLUMNS

from .model import Catalog, CatalogKind, Entry, EntryKind, Namespace

_BUCKET: Final = "b.id, b.name, b.owner, b.region, b.created_ms, b.versioning, b.settings"
_OWN_NAMES: Final = "id, name, base_prefix, kind, allowed, properties, created_ms"
_RESTRICTING: Final = ", ".join(f"'{name}'" for name in sorted(RESTRICTION_TYPES))
_STATE: Final = (
    # Mostly false. Read with the row that every request reads, which saves a statement.
    f"EXISTS (SELECT 1 FROM policy_attachments a WHERE a.warehouse = w.id AND a.type IN ({_RESTRICTING}))",  # noqa: S608
    "EXISTS (SELECT 1 FROM catalog_connections c WHERE c.catalog = w.id)",
    "(SELECT s.revision FROM catalog_storage s WHERE s.catalog = w.id)",
)
CATALOG_SELECTED: Final = ", ".join((*(f"w.{column.strip()}" for column in _OWN_NAMES.split(",")), *_STATE))
_CATALOG: Final = f"{_BUCKET}, {CATALOG_SELECTED}"
_NAMESPACE: Final = "n.id, n.path, n.properties"
_ENTRY_NAMES: Final = (
    "id, kind, warehouse, namespace, name, uuid, format_version, location, metadata_at,"
    " version_token, generation, created_ms, updated_ms, protected, dropped_ms, expires_ms, purge"
)
_ENTRY: Final = ", ".join(f"e.{column.strip()}" for column in _ENTRY_NAMES.split(","))
_ENTRY_MARKS: Final = ", ".join("?" for _ in _ENTRY_NAMES.split(","))


def _marks(count: int) -> str:
    return ", ".join("?" for _ in range(count))


OWN_COLUMNS: Final = len(_OWN_NAMES.split(",")) + len(_STATE)
"""The number of columns of a catalog without its bucket's."""
CATALOG_COLUMNS: Final = BUCKET_COLUMNS + OWN_COLUMNS
NAMESPACE_COLUMNS: Final = 3
ENTRY_COLUMNS: Final = len(_ENTRY_NAMES.split(","))

# -- warehouses ---------------------------------------------------------------------------------------------------

_CATALOGS: Final = "warehouses w JOIN buckets b ON b.id = w.bucket"
CATALOG: Final = f"SELECT {_CATALOG} FROM {_CATALOGS} WHERE w.name = ?"  # noqa: S608  # constants only, here and below
CATALOGS_AFTER: Final = (
    f"SELECT {_CATALOG} FROM warehouses w CROSS JOIN buckets b"  # noqa: S608
    " WHERE b.id = w.bucket AND b.owner = ? AND w.name > ? ORDER BY w.name LIMIT ?"
)
"""Ordered by name, not by owner first: `CROSS` keeps SQLite from a plan that sorts all rows."""
CATALOGS_OF_BUCKET: Final = f"SELECT {_CATALOG} FROM {_CATALOGS} WHERE w.bucket = ? ORDER BY w.name"  # noqa: S608
INSERT_CATALOG: Final = (
    "INSERT INTO warehouses (name, bucket, base_prefix, kind, allowed, properties, version, created_ms, updated_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING RETURNING id"
)
CONFIGURE_CATALOG: Final = (
    "UPDATE warehouses SET allowed = ?, properties = ?, version = version + 1, updated_ms = ? WHERE id = ?"
)
DELETE_CATALOG: Final = "DELETE FROM warehouses WHERE id = ?"
CATALOG_HAS_NAMESPACES: Final = "SELECT 1 FROM namespaces WHERE warehouse = ? LIMIT 1"
HAS_QUARANTINED_WITHIN: Final = (
    "SELECT 1 FROM quarantined_objects WHERE bucket = ? AND held_key >= ? AND held_key < ? LIMIT 1"
)

CLAIM_DIRECTORY: Final = "INSERT INTO warehouse_locations (bucket, prefix, warehouse) VALUES (?, ?, ?)"
RELEASE_DIRECTORIES: Final = "DELETE FROM warehouse_locations WHERE warehouse = ?"
DIRECTORY_AT_OR_BEFORE: Final = (
    "SELECT prefix, warehouse FROM warehouse_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1"
)
OTHER_DIRECTORY_FROM: Final = (
    "SELECT prefix FROM warehouse_locations WHERE bucket = ? AND prefix >= ? AND warehouse <> ? ORDER BY prefix LIMIT 1"
)
CATALOG_AT: Final = (
    f"SELECT l.prefix, {CATALOG_SELECTED}"  # noqa: S608
    " FROM (SELECT prefix, warehouse FROM warehouse_locations WHERE bucket = ? AND prefix <= ?"
    " ORDER BY prefix DESC LIMIT 1) l JOIN warehouses w ON w.id = l.warehouse"
)
"""The last directory at or before a key, and its catalog."""

# -- namespaces ---------------------------------------------------------------------------------------------------

NAMESPACE: Final = f"SELECT {_NAMESPACE} FROM namespaces n WHERE n.warehouse = ? AND n.path = ?"  # noqa: S608
INSERT_NAMESPACE: Final = (
    "INSERT INTO namespaces (warehouse, path, parent, properties, created_ms) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (warehouse, path) DO NOTHING RETURNING id"
)
DELETE_NAMESPACE: Final = "DELETE FROM namespaces WHERE id = ?"
SET_NAMESPACE_PROPERTIES: Final = "UPDATE namespaces SET properties = ? WHERE id = ?"
CHILD_NAMESPACES: Final = (
    f"SELECT {_NAMESPACE} FROM namespaces n"  # noqa: S608
    " WHERE n.warehouse = ? AND n.parent = ? AND n.path > ? ORDER BY n.path LIMIT ?"
)


def _namespaces_among(batch: int) -> str:
    return (
        f"SELECT {_NAMESPACE} FROM namespaces n WHERE n.warehouse = ? AND n.parent = ?"  # noqa: S608
        f" AND n.path IN ({_marks(batch)}) ORDER BY n.path"
    )


ID_BATCH: Final = 64
"""The number of ids in one statement."""
CHILD_NAMESPACES_AMONG: Final = _namespaces_among(ID_BATCH)
LARGE_ID_BATCH: Final = 4096
CHILD_NAMESPACES_AMONG_MANY: Final = _namespaces_among(LARGE_ID_BATCH)

NAMESPACE_HAS_ENTRIES: Final = "SELECT 1 FROM entries WHERE namespace = ? LIMIT 1"
NAMESPACE_HAS_CHILDREN: Final = "SELECT 1 FROM namespaces WHERE warehouse = ? AND parent = ? LIMIT 1"
NAMESPACE_HAS_POLICIES: Final = "SELECT 1 FROM policies WHERE namespace = ? LIMIT 1"

# -- entries ------------------------------------------------------------------------------------------------------

_FIND: Final = (
    " FROM warehouses w JOIN buckets b ON b.id = w.bucket"
    " LEFT JOIN namespaces n ON n.warehouse = w.id AND n.path = ?"
    " LEFT JOIN entries e ON e.namespace = n.id AND e.name = ?"
)
FIND_ENTRY: Final = f"SELECT {_CATALOG}, {_NAMESPACE}, {_ENTRY}{_FIND} WHERE w.name = ?"
"""Resolves a name in one statement: the row shows which of catalog, namespace and entry is missing."""

_ENTRIES_WHERE: Final = (
    f"SELECT {_CATALOG}, {_NAMESPACE}, {_ENTRY} FROM entries e JOIN namespaces n ON n.id = e.namespace"  # noqa: S608
    " JOIN warehouses w ON w.id = e.warehouse JOIN buckets b ON b.id = w.bucket WHERE "
)
ENTRY_BY_ID: Final = f"{_ENTRIES_WHERE}e.id = ? AND e.dropped_ms IS NULL"
_TABLES: Final = (
    f"{_ENTRIES_WHERE}e.kind = 'table' AND e.dropped_ms IS NULL"
    # Without the entries of federated tables: their metadata is not here.
    " AND e.metadata_at <> ''"
)
TABLES_AFTER: Final = f"{_TABLES} AND e.id > ? ORDER BY e.id LIMIT ?"
TABLES_OF_CATALOG_AFTER: Final = f"{_TABLES} AND w.name = ? AND e.id > ? ORDER BY e.id LIMIT ?"
TABLES_OF_NAMESPACE_AFTER: Final = f"{_TABLES} AND w.name = ? AND n.path = ? AND e.id > ? ORDER BY e.id LIMIT ?"

_GOVERNED: Final = f"{_ENTRIES_WHERE}e.kind IN ('table', 'view') AND e.dropped_ms IS NULL AND e.warehouse = ?"
GOVERNED_IN_CATALOG_AFTER: Final = f"{_GOVERNED} AND e.id > ? ORDER BY e.id LIMIT ?"
GOVERNED_IN_NAMESPACE_AFTER: Final = (
    f"{_GOVERNED} AND (n.path = ? OR (n.path >= ? AND n.path < ?)) AND e.id > ? ORDER BY e.id LIMIT ?"
)
"""Entries that policies can apply to, in a namespace and in the namespaces below it."""

INSERT_ENTRY: Final = (
    f"INSERT INTO entries ({_ENTRY_NAMES}) VALUES ({_ENTRY_MARKS}) ON CONFLICT (namespace, name) DO NOTHING"  # noqa: S608
    " RETURNING id"
)
ENTRY_NAMES_AFTER: Final = (
    "SELECT name FROM entries WHERE namespace = ? AND kind = ? AND dropped_ms IS NULL AND name > ?"
    " ORDER BY name LIMIT ?"
)


ENTRIES_AFTER: Final = (
    "SELECT id, name FROM entries WHERE namespace = ? AND kind = ? AND dropped_ms IS NULL AND name > ?"
    " ORDER BY name LIMIT ?"
)


def _entries_among(batch: int) -> str:
    return (
        f"SELECT e.id, e.name FROM entries e WHERE e.namespace = ? AND e.kind = ? AND e.dropped_ms IS NULL"  # noqa: S608
        f" AND e.id IN ({_marks(batch)}) ORDER BY e.name"
    )


ENTRIES_AMONG: Final = _entries_among(ID_BATCH)
ENTRIES_AMONG_MANY: Final = _entries_among(LARGE_ID_BATCH)

INSERT_GENERIC_TABLE: Final = "INSERT INTO generic_tables (entry, format, doc, properties) VALUES (?, ?, ?, ?)"
GENERIC_TABLE: Final = "SELECT format, doc, properties FROM generic_tables WHERE entry = ?"

MOVE_POINTER: Final = (
    "UPDATE entries SET uuid = ?, format_version = ?, location = ?, metadata_at = ?,"
    " version_token = ?, generation = ?, updated_ms = ?"
    " WHERE id = ? AND version_token = ? AND dropped_ms IS NULL"
)
IS_AT_VERSION: Final = "SELECT 1 FROM entries WHERE id = ? AND version_token = ? AND dropped_ms IS NULL"
RENAME_ENTRY: Final = "UPDATE entries SET namespace = ?, name = ?, updated_ms = ? WHERE id = ?"
PROTECT_ENTRY: Final = "UPDATE entries SET protected = ? WHERE id = ?"
MARK_DROPPED: Final = "UPDATE entries SET dropped_ms = ?, expires_ms = ?, purge = ? WHERE id = ?"
RESTORE_ENTRY: Final = "UPDATE entries SET dropped_ms = NULL, expires_ms = NULL, purge = 0, updated_ms = ? WHERE id = ?"
DELETE_ENTRY: Final = "DELETE FROM entries WHERE id = ?"
DROPPED_IN: Final = (
    f"SELECT {_ENTRY}, n.path FROM entries e JOIN namespaces n ON n.id = e.namespace"  # noqa: S608
    " WHERE e.warehouse = ? AND e.dropped_ms IS NOT NULL AND e.id > ? ORDER BY e.id LIMIT ?"
)
EXPIRED: Final = (
    f"SELECT {_ENTRY}, n.path, {_CATALOG} FROM entries e JOIN namespaces n ON n.id = e.namespace"  # noqa: S608
    " JOIN warehouses w ON w.id = e.warehouse JOIN buckets b ON b.id = w.bucket"
    " WHERE e.expires_ms IS NOT NULL AND e.expires_ms <= ? ORDER BY e.expires_ms LIMIT ?"
)

# -- locations ----------------------------------------------------------------------------------------------------

INSERT_LOCATION: Final = "INSERT INTO entry_locations (bucket, prefix, entry) VALUES (?, ?, ?)"
LOCATIONS_OF: Final = "SELECT prefix FROM entry_locations WHERE entry = ? ORDER BY prefix"
DIRECTORIES_OF: Final = (
    f"SELECT {_CATALOG}, l.prefix FROM entry_locations l JOIN entries e ON e.id = l.entry"  # noqa: S608
    " JOIN warehouses w ON w.id = e.warehouse JOIN buckets b ON b.id = l.bucket WHERE l.entry = ?"
)
DELETE_LOCATIONS: Final = "DELETE FROM entry_locations WHERE entry = ?"
LOCATION_AT_OR_BEFORE: Final = (
    "SELECT prefix, entry FROM entry_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1"
)
ENTRY_OF_KEY: Final = (
    f"SELECT l.prefix, n.path, {CATALOG_SELECTED}, {_ENTRY}"  # noqa: S608
    " FROM (SELECT prefix, entry FROM entry_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1) l"
    " JOIN entries e ON e.id = l.entry JOIN namespaces n ON n.id = e.namespace"
    " JOIN warehouses w ON w.id = e.warehouse"
)
_HERE: Final = "warehouse NOT IN (SELECT catalog FROM catalog_storage)"
IS_CURRENT_METADATA: Final = f"SELECT 1 FROM entries WHERE metadata_at IN (?, ?, ?) AND {_HERE} LIMIT 1"  # noqa: S608
BUCKET_HAS_ENTRIES: Final = (
    "SELECT 1 FROM warehouses w JOIN namespaces n ON n.warehouse = w.id JOIN entries e ON e.namespace = n.id"
    " WHERE w.bucket = ? LIMIT 1"
)
HAS_METADATA_WITHIN: Final = f"SELECT 1 FROM entries WHERE metadata_at >= ? AND metadata_at < ? AND {_HERE} LIMIT 1"  # noqa: S608
"""Both without catalogs over external storage, where a bucket can have the same name."""
LOCATIONS_WITHIN: Final = (
    "SELECT prefix FROM entry_locations WHERE bucket = ? AND prefix >= ? AND prefix < ? ORDER BY prefix"
)
OTHERS_WITHIN: Final = (
    "SELECT 1 FROM entry_locations WHERE bucket = ? AND prefix >= ? AND prefix < ? AND entry <> ? LIMIT 1"
)

# -- commits ------------------------------------------------------------------------------------------------------

_COMMIT: Final = (
    "entry, generation, commit_id, operation, writer, previous_at, metadata_at, expected_token, version_token,"
    " request_digest, requirements, committed_ms"
)
INSERT_COMMIT: Final = f"INSERT INTO entry_commits ({_COMMIT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
COMMIT_BY_ID: Final = f"SELECT {_COMMIT} FROM entry_commits WHERE entry = ? AND commit_id = ?"  # noqa: S608
COMMITTED_METADATA: Final = "SELECT 1 FROM entry_commits WHERE entry = ? AND metadata_at = ? LIMIT 1"
COMMITS_OF: Final = f"SELECT {_COMMIT} FROM entry_commits WHERE entry = ? ORDER BY generation DESC LIMIT ?"  # noqa: S608

# -- idempotency keys ---------------------------------------------------------------------------------------------

STORED_RESPONSE: Final = "SELECT request, answer, created_ms FROM idempotency_keys WHERE id = ?"
INSERT_RESPONSE: Final = (
    "INSERT INTO idempotency_keys (id, request, answer, created_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (id) DO NOTHING RETURNING id"
)
DELETE_EXPIRED_RESPONSE: Final = "DELETE FROM idempotency_keys WHERE id = ? AND created_ms < ?"
DELETE_EXPIRED_RESPONSES: Final = "DELETE FROM idempotency_keys WHERE created_ms < ?"

# -- files --------------------------------------------------------------------------------------------------------


def _stat(batch: int) -> str:
    return (
        "SELECT o.key, o.size, o.etag, o.modified_ms FROM buckets b JOIN objects o ON o.bucket = b.id"  # noqa: S608
        f" WHERE b.name = ? AND o.key IN ({_marks(batch)})"
    )


STAT_BATCH: Final = 16
STAT_FILES: Final = _stat(STAT_BATCH)
STAT_LARGE_BATCH: Final = 256
STAT_MANY_FILES: Final = _stat(STAT_LARGE_BATCH)
"""For commits of many files: fewer round trips inside the transaction that publishes them."""

# -- reports ------------------------------------------------------------------------------------------------------

INSERT_REPORT: Final = "INSERT INTO table_reports (entry, kind, report, principal, received_ms) VALUES (?, ?, ?, ?, ?)"
REPORTS_BEFORE: Final = (
    "SELECT seq, kind, report, principal, received_ms FROM table_reports"
    " WHERE entry = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
)
DELETE_OLD_REPORTS: Final = "DELETE FROM table_reports WHERE received_ms < ?"

# -- imports ------------------------------------------------------------------------------------------------------

INSERT_IMPORT: Final = (
    "INSERT INTO table_imports (entry, metadata_at, external_token, properties, principal, imported_ms)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
IMPORT_OF: Final = (
    "SELECT metadata_at, external_token, properties, principal, imported_ms FROM table_imports WHERE entry = ?"
)


def catalog_from(row: Row) -> Catalog:
    """A catalog, from the first columns of a row."""
    return catalog_in(bucket_from(row), row, BUCKET_COLUMNS)


def catalog_in(bucket: Bucket, row: Row, at: int = 0) -> Catalog:
    """A catalog of a known bucket, from columns beginning at `at`."""
    columns = row[at : at + OWN_COLUMNS]
    catalog_id, name, base_prefix, kind, allowed, properties, created_ms, restricts, federated, storage = columns
    return Catalog(
        bucket,
        catalog_id,
        name,
        base_prefix,
        CatalogKind(kind),
        allowed,
        properties,
        created_ms,
        bool(restricts),
        bool(federated),
        storage,
    )


def namespace_from(row: Row, at: int = 0) -> Namespace:
    """A namespace, from columns beginning at `at`."""
    return Namespace(row[at], row[at + 1], row[at + 2])


def entry_from(row: Row, at: int = 0) -> Entry:
    """A table or view, from columns beginning at `at`."""
    columns = list(row[at : at + ENTRY_COLUMNS])
    columns[1] = EntryKind(columns[1])
    columns[13] = bool(columns[13])
    columns[16] = bool(columns[16])
    return Entry(*columns)


def entry_columns(entry: Entry) -> tuple[int | str | None, ...]:
    """The columns of `INSERT_ENTRY`."""
    return (*entry[:13], int(entry.protected), entry.dropped_ms, entry.expires_ms, int(entry.purge))
