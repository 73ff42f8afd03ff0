"""Synthetic entities: rows for names in federated catalogs that carry grants, as in Polaris, and nothing else.

The first grant on a name creates one. Dropping the namespace, table or view through this server removes it. An entry
that is dropped and created again directly in the external catalog keeps the grants of its name.
"""

from __future__ import annotations

from uuid import uuid4

from lakebed.catalog import rows as own
from lakebed.catalog.identifiers import SEPARATOR, Identifier, Levels, path_of
from lakebed.catalog.model import Entry, EntryKind, pack_properties
from lakebed.core.errors import Corrupted
from lakebed.governance.rbac.grant_cleanup import (
    invalidate_catalog_grants,
    invalidate_entry_grants,
    invalidate_namespace_grants,
)
from lakebed.meta.seam import Reader, Transaction

from . import rows


def blank_entry(entry_id: str, kind: EntryKind, catalog: int, namespace: int, name: str, now_ms: int) -> Entry:
    """A table or view of which nothing but the name is known here."""
    return Entry(
        entry_id,
        kind,
        catalog,
        namespace,
        name,
        uuid="",
        format_version=0,
        location="",
        metadata_at="",
        version_token="",
        generation=0,
        created_ms=now_ms,
        updated_ms=now_ms,
        protected=False,
    )


async def find_synthetic_entry(reader: Reader, catalog: int, identifier: Identifier, kind: EntryKind) -> str | None:
    """The id of the synthetic entity of a table or view; None without one."""
    row = await reader.row(rows.SYNTHETIC_ENTRY, identifier.name, catalog, path_of(identifier.namespace))
    return str(row[0]) if row is not None and row[1] == kind else None


async def ensure_synthetic_namespace(tx: Transaction, catalog: int, levels: Levels, now_ms: int) -> int:
    """The id of the synthetic entity of a namespace, created with its ancestors if missing."""
    for depth in range(1, len(levels) + 1):
        path, parent = path_of(levels[:depth]), path_of(levels[: depth - 1])
        await tx.row(own.INSERT_NAMESPACE, catalog, path, parent, pack_properties({}), now_ms)
    found = await tx.row(own.NAMESPACE, catalog, path_of(levels))
    if found is None:
        raise Corrupted(f"a namespace created in this transaction is missing. namespace={'.'.join(levels)}")
    return int(found[0])


async def ensure_synthetic_entry(
    tx: Transaction, catalog: int, identifier: Identifier, kind: EntryKind, now_ms: int
) -> None:
    """Create the synthetic entity of a table or view if missing, instead of one of another kind."""
    namespace = await ensure_synthetic_namespace(tx, catalog, identifier.namespace, now_ms)
    row = await tx.row(rows.SYNTHETIC_ENTRY, identifier.name, catalog, path_of(identifier.namespace))
    if row is not None:
        if row[1] == kind:
            return
        await _remove(tx, str(row[0]))
    entry = blank_entry(uuid4().hex, kind, catalog, namespace, identifier.name, now_ms)
    await tx.row(own.INSERT_ENTRY, *own.entry_columns(entry))


async def drop_synthetic_entry(tx: Transaction, catalog: int, identifier: Identifier) -> None:
    """Remove the synthetic entity of a dropped table or view: the next entry of the name starts without grants."""
    row = await tx.row(rows.SYNTHETIC_ENTRY, identifier.name, catalog, path_of(identifier.namespace))
    if row is not None:
        await _remove(tx, str(row[0]))


async def rename_synthetic_entry(
    tx: Transaction, catalog: int, source: Identifier, target: Identifier, kind: EntryKind, now_ms: int
) -> None:
    """Rename the synthetic entity of a renamed table or view: its grants follow."""
    moved = await find_synthetic_entry(tx, catalog, source, kind)
    await drop_synthetic_entry(tx, catalog, target)
    if moved is not None:
        namespace = await ensure_synthetic_namespace(tx, catalog, target.namespace, now_ms)
        await tx.run(own.RENAME_ENTRY, namespace, target.name, now_ms, moved)


async def drop_synthetic_namespace(tx: Transaction, catalog: int, levels: Levels) -> None:
    """Remove the synthetic entities of a dropped namespace and of everything in it."""
    path = path_of(levels)
    within = await tx.rows(rows.NAMESPACES_WITHIN, catalog, path, path + SEPARATOR, path + chr(ord(SEPARATOR) + 1))
    for (namespace,) in within:
        for (entry,) in await tx.rows(rows.SYNTHETIC_ENTRIES_IN, namespace):
            await _remove(tx, entry)
        await invalidate_namespace_grants(tx, namespace)
        await tx.run(own.DELETE_NAMESPACE, namespace)


async def drop_synthetic_entities(tx: Transaction, catalog: int) -> None:
    """Remove all synthetic entities of a catalog that is disconnected."""
    await invalidate_catalog_grants(tx, catalog)
    await tx.run(rows.DELETE_ENTRIES, catalog)
    await tx.run(rows.DELETE_NAMESPACES, catalog)


async def _remove(tx: Transaction, entry: str) -> None:
    await invalidate_entry_grants(tx, entry)
    await tx.run(own.DELETE_ENTRY, entry)
