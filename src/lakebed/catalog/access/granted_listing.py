"""Partial listings: callers that may not list a namespace get the entries that are granted to them.

Only grants make a listing partial. A policy allows a listing or denies it, and a deny stays in force: the permission is
checked again, on one of the granted entries, before any is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from lakebed.core.access import Securable
from lakebed.governance.rbac import Privilege, entry_securable, namespace_securable
from lakebed.governance.rbac.securables import ENTRY_PREFIX, namespace_key
from lakebed.meta.seam import Reader, Row
from lakebed.meta.sql_text import padded_batches
from lakebed.objects.model import Caller

from .. import rows
from ..identifiers import SEPARATOR, Levels, path_of
from ..model import Catalog, EntryKind, Namespace
from ..rows import namespace_from

SCANNED_FOR_EACH: Final = 4
"""Number of namespace entries scanned for each granted id before the ids are looked up instead."""

_Selector: TypeAlias = Callable[[Sequence[Row], AbstractSet[str]], list[str]]
"""Selects names or ids from rows by the granted ids.

Two variants instead of a callback per row: a call for each of ten thousand rows is a tenth of the listing's time.
"""


class GrantedEntries:
    """The tables or views of a namespace that are granted to a caller, a page at a time.

    Few granted ids are looked up in one statement. For many ids a scan of the namespace is faster, and costs about what
    the full listing does. Only if the namespace turns out to be much larger than the number of granted ids are these
    looked up, 4,096 per statement. So the cost grows with the number of granted ids, however large the namespace is.
    """

    def __init__(self, reader: Reader, caller: Caller, catalog: Catalog, namespace: Namespace, kind: EntryKind) -> None:
        privilege = Privilege.VIEW_LIST if kind is EntryKind.VIEW else Privilege.TABLE_LIST
        self._ids = _granted_keys(caller, privilege, ENTRY_PREFIX)
        self._reader = reader
        self._catalog = catalog
        self._namespace = namespace
        self._kind = kind

    async def names(self, after: str, size: int) -> list[str]:
        """Up to `size` names after `after`, in order; fewer on the last page."""
        return await self._page(_names_of, after, size)

    async def one(self) -> Securable | None:
        """One of the entries, to authorize the listing on; None if there are none."""
        found = await self._page(_ids_of, "", 1)
        return entry_securable(self._catalog.id, self._namespace.levels, found[0]) if found else None

    async def _page(self, select: _Selector, after: str, size: int) -> list[str]:
        if len(self._ids) > rows.ID_BATCH:
            found = await self._scan(select, after, size)
            if found is not None:
                return found
        return await self._seek(select, after, size)

    async def _scan(self, select: _Selector, after: str, size: int) -> list[str] | None:
        """The page, found by scanning the namespace; None if that takes too long."""
        found: list[str] = []
        left = max(len(self._ids) * SCANNED_FOR_EACH, size)
        while left > 0:
            step = min(max(size, rows.ID_BATCH), left)
            passed = await self._reader.rows(rows.ENTRIES_AFTER, self._namespace.id, self._kind, after, step)
            found += select(passed, self._ids)
            if len(found) >= size or len(passed) < step:
                del found[size:]
                return found
            left -= step
            after = str(passed[-1][1])
        return None

    async def _seek(self, select: _Selector, after: str, size: int) -> list[str]:
        """The page, found by the granted ids."""
        found: list[Row] = []
        for statement, batch in _batches(list(self._ids), rows.ENTRIES_AMONG, rows.ENTRIES_AMONG_MANY):
            passed = await self._reader.rows(statement, self._namespace.id, self._kind, *batch)
            found += [row for row in passed if row[1] > after]
        return select(sorted(found, key=lambda row: str(row[1]))[:size], self._ids)


def _names_of(entries: Sequence[Row], granted: AbstractSet[str]) -> list[str]:
    return [name for id_, name in entries if id_ in granted]


def _ids_of(entries: Sequence[Row], granted: AbstractSet[str]) -> list[str]:
    return [id_ for id_, _ in entries if id_ in granted]


async def granted_children(
    reader: Reader, caller: Caller, catalog: Catalog, parent: Levels
) -> tuple[list[Namespace], Securable] | None:
    """The direct children of a namespace, or of the catalog, that are granted to a caller, and one to authorize on."""
    catalog_id = catalog.id
    start = namespace_key(catalog_id, (*parent, ""))
    before = start.removeprefix(namespace_key(catalog_id, ()))
    paths = [before + key for key in _granted_keys(caller, Privilege.NAMESPACE_LIST, start) if SEPARATOR not in key]
    found: list[Namespace] = []
    for statement, batch in _batches(paths, rows.CHILD_NAMESPACES_AMONG, rows.CHILD_NAMESPACES_AMONG_MANY):
        found += [namespace_from(row) for row in await reader.rows(statement, catalog_id, path_of(parent), *batch)]
    if not found:
        return None
    found.sort(key=lambda one: one.path)
    return found, namespace_securable(catalog_id, found[0].levels)


def _granted_keys(caller: Caller, privilege: Privilege, beginning: str) -> frozenset[str]:
    grants = caller.principal.grants
    return frozenset() if grants is None else grants.granted_keys(privilege, beginning)


def _batches(values: Sequence[str], few: str, many: str) -> Iterator[tuple[str, list[str]]]:
    """Statements of two sizes with their parameters: the store caches a plan for each statement text."""
    statement, size = (few, rows.ID_BATCH) if len(values) <= rows.ID_BATCH else (many, rows.LARGE_ID_BATCH)
    for batch in padded_batches(values, size):
        yield statement, batch
