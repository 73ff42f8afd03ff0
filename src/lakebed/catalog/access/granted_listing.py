"""Lists for callers who may not list a place, and hold something in it: they see just that.

Only grants show a part of a list. A policy allows the whole or nothing of it, and what one denies stays denied: the
question is asked again, about something that is held, before anything is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from lakebed.core.access import Securable
from lakebed.governance.rbac import Privilege, entry_securable, namespace_securable
from lakebed.governance.rbac.securables import ENTRY_PREFIX, namespace_key
from lakebed.meta.seam import Reader, Row
from lakebed.objects.model import Caller

from .. import rows
from ..identifiers import SEPARATOR, Levels, path_of
from ..model import Catalog, EntryKind, Namespace
from ..rows import namespace_from

SCANNED_FOR_EACH: Final = 4
"""How many entries of a namespace are looked at in order, for each that is held anywhere, before those are sought."""

_Told: TypeAlias = Callable[[Sequence[Row], AbstractSet[str]], list[str]]
"""What is told of those that are held, among entries that a namespace was seen to have: written out for each, since a
step more for each of ten thousand is a tenth of the time of their list."""


class GrantedEntries:
    """The tables or views of a namespace that the caller may list, though not all of them: a page at a time.

    Few are sought by their ids, in one statement. Of many it is quicker to look through the namespace and keep those
    that are held, which costs about what the list of all does: half of a namespace is found in one pass over it. Only
    where the namespace turns out to be much larger than what is held are these sought, 4,096 with a statement. So the
    cost grows with what is held, however large the namespace is.
    """

    def __init__(self, reader: Reader, caller: Caller, catalog: Catalog, namespace: Namespace, kind: EntryKind) -> None:
        privilege = Privilege.VIEW_LIST if kind is EntryKind.VIEW else Privilege.TABLE_LIST
        self._ids = _carriers(caller, privilege, ENTRY_PREFIX)
        self._reader = reader
        self._warehouse = catalog
        self._namespace = namespace
        self._kind = kind

    async def names(self, after: str, size: int) -> list[str]:
        """So many names behind `after`, in order; fewer at the end."""
        return await self._page(_names_of, after, size)

    async def one(self) -> Securable | None:
        """One of them, to ask about; None if there is none."""
        found = await self._page(_ids_of, "", 1)
        return entry_securable(self._warehouse.id, self._namespace.levels, found[0]) if found else None

    async def _page(self, told: _Told, after: str, size: int) -> list[str]:
        if len(self._ids) > rows.ID_BATCH:
            found = await self._scan(told, after, size)
            if found is not None:
                return found
        return await self._seek(told, after, size)

    async def _scan(self, told: _Told, after: str, size: int) -> list[str] | None:
        """The page, found by looking through the namespace; None if that is too long a way."""
        found: list[str] = []
        left = max(len(self._ids) * SCANNED_FOR_EACH, size)
        while left > 0:
            step = min(max(size, rows.ID_BATCH), left)
            passed = await self._reader.rows(rows.ENTRIES_AFTER, self._namespace.id, self._kind, after, step)
            found += told(passed, self._ids)
            if len(found) >= size or len(passed) < step:
                del found[size:]
                return found
            left -= step
            after = str(passed[-1][1])
        return None

    async def _seek(self, told: _Told, after: str, size: int) -> list[str]:
        """The page, found by the ids of all that is held anywhere."""
        found: list[Row] = []
        for statement, batch in _batches(list(self._ids), rows.ENTRIES_AMONG, rows.ENTRIES_AMONG_MANY):
            passed = await self._reader.rows(statement, self._namespace.id, self._kind, *batch)
            found += [row for row in passed if row[1] > after]
        return told(sorted(found, key=lambda row: str(row[1]))[:size], self._ids)


def _names_of(entries: Sequence[Row], held: AbstractSet[str]) -> list[str]:
    return [name for id_, name in entries if id_ in held]


def _ids_of(entries: Sequence[Row], held: AbstractSet[str]) -> list[str]:
    return [id_ for id_, _ in entries if id_ in held]


async def granted_children(
    reader: Reader, caller: Caller, catalog: Catalog, parent: Levels
) -> tuple[list[Namespace], Securable] | None:
    """The direct children of a namespace, or of the warehouse, that the caller may list; as above."""
    catalog_id = catalog.id
    start = namespace_key(catalog_id, (*parent, ""))
    before = start.removeprefix(namespace_key(catalog_id, ()))
    paths = [before + key for key in _carriers(caller, Privilege.NAMESPACE_LIST, start) if SEPARATOR not in key]
    found: list[Namespace] = []
    for statement, batch in _batches(paths, rows.CHILD_NAMESPACES_AMONG, rows.CHILD_NAMESPACES_AMONG_MANY):
        found += [namespace_from(row) for row in await reader.rows(statement, catalog_id, path_of(parent), *batch)]
    if not found:
        return None
    found.sort(key=lambda one: one.path)
    return found, namespace_securable(catalog_id, found[0].levels)


def _carriers(caller: Caller, privilege: Privilege, beginning: str) -> frozenset[str]:
    grants = caller.principal.grants
    return frozenset() if grants is None else grants.carriers(privilege, beginning)


def _batches(values: Sequence[str], few: str, many: str) -> Iterator[tuple[str, list[str]]]:
    """Statements of two sizes, and what fills their marks: no store keeps a plan for every number of them."""
    statement, size = (few, rows.ID_BATCH) if len(values) <= rows.ID_BATCH else (many, rows.LARGE_ID_BATCH)
    for start in range(0, len(values), size):
        batch = list(values[start : start + size])
        yield statement, batch + [""] * (size - len(batch))
