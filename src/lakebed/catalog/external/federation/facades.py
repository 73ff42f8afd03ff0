"""What is known here of the things in a catalog behind this one: names that grants are put on, and nothing else.

They come into being when something is first granted, and go with what they stand for, as far as that is dropped through
this server. What is dropped and made anew behind its back has the name, and so the grants, of what was there before.
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


async def find_facade(reader: Reader, catalog: int, identifier: Identifier, kind: EntryKind) -> str | None:
    """The id of what stands for a table or view here; None if nothing was ever granted on it."""
    row = await reader.row(rows.FACADE, identifier.name, catalog, path_of(identifier.namespace))
    return str(row[0]) if row is not None and row[1] == kind else None


async def record_namespace(tx: Transaction, catalog: int, levels: Levels, now_ms: int) -> int:
    """The id of what stands for a namespace, made if need be, with all that it lies in."""
    for depth in range(1, len(levels) + 1):
        path, parent = path_of(levels[:depth]), path_of(levels[: depth - 1])
        await tx.row(own.INSERT_NAMESPACE, catalog, path, parent, pack_properties({}), now_ms)
    found = await tx.row(own.NAMESPACE, catalog, path_of(levels))
    if found is None:
        raise Corrupted(f"a namespace that was recorded just now is not there: {'.'.join(levels)}")
    return int(found[0])


async def record_entry(tx: Transaction, catalog: int, identifier: Identifier, kind: EntryKind, now_ms: int) -> None:
    """Make what stands for a table or view, unless it is there. One of another kind has the name no longer."""
    namespace = await record_namespace(tx, catalog, identifier.namespace, now_ms)
    row = await tx.row(rows.FACADE, identifier.name, catalog, path_of(identifier.namespace))
    if row is not None:
        if row[1] == kind:
            return
        await _remove(tx, str(row[0]))
    entry = Entry(
        uuid4().hex,
        kind,
        catalog,
        namespace,
        identifier.name,
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
    await tx.row(own.INSERT_ENTRY, *own.entry_columns(entry))


async def forget_entry(tx: Transaction, catalog: int, identifier: Identifier) -> None:
    """A table or view is gone: what has its name next holds nothing."""
    row = await tx.row(rows.FACADE, identifier.name, catalog, path_of(identifier.namespace))
    if row is not None:
        await _remove(tx, str(row[0]))


async def rename_entry(
    tx: Transaction, catalog: int, source: Identifier, target: Identifier, kind: EntryKind, now_ms: int
) -> None:
    """A table or view has another name: grants go along."""
    moved = await find_facade(tx, catalog, source, kind)
    await forget_entry(tx, catalog, target)
    if moved is not None:
        namespace = await record_namespace(tx, catalog, target.namespace, now_ms)
        await tx.run(own.RENAME_ENTRY, namespace, target.name, now_ms, moved)


async def forget_namespace(tx: Transaction, catalog: int, levels: Levels) -> None:
    """A namespace is gone, and with it all that it held when we last heard of it."""
    path = path_of(levels)
    within = await tx.rows(rows.NAMESPACES_WITHIN, catalog, path, path + SEPARATOR, path + chr(ord(SEPARATOR) + 1))
    for (namespace,) in within:
        for (entry,) in await tx.rows(rows.FACADES_IN, namespace):
            await _remove(tx, entry)
        await invalidate_namespace_grants(tx, namespace)
        await tx.run(own.DELETE_NAMESPACE, namespace)


async def forget_all(tx: Transaction, catalog: int) -> None:
    """Nothing of the catalog is behind this one any more."""
    await invalidate_catalog_grants(tx, catalog)
    await tx.run(rows.FORGET_ENTRIES, catalog)
    await tx.run(rows.FORGET_NAMESPACES, catalog)


async def _remove(tx: Transaction, entry: str) -> None:
    await invalidate_entry_grants(tx, entry)
    await tx.run(own.DELETE_ENTRY, entry)
