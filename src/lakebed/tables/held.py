"""Lists for callers who may not list a place, and hold something in it: they see just that.

Only grants show a part of a list. A policy allows the whole or nothing of it, and what one denies stays denied: the
question is asked again, about something that is held, before anything is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.core.access import Securable
from lakebed.governance.rbac import Privilege, entry_securable, namespace_securable
from lakebed.governance.rbac.securables import ENTRY_PREFIX, namespace_key
from lakebed.meta.seam import Reader, Row
from lakebed.objects.model import Caller

from . import rows
from .identifiers import SEPARATOR, Levels, path_of
from .model import EntryKind, Namespace, Warehouse
from .rows import namespace_from


async def held_names(
    reader: Reader, caller: Caller, warehouse: Warehouse, namespace: Namespace, kind: EntryKind
) -> tuple[list[str], Securable] | None:
    """The tables or views of a namespace that the caller may list, by name, and one of them; None if there is none.

    One statement for 4,096 that it holds anywhere.
    """
    privilege = Privilege.VIEW_LIST if kind is EntryKind.VIEW else Privilege.TABLE_LIST
    ids = [key.removeprefix(ENTRY_PREFIX) for key in _carriers(caller, privilege) if key.startswith(ENTRY_PREFIX)]
    found: list[Row] = []
    for statement, batch in _batches(ids, rows.ENTRIES_AMONG, rows.ENTRIES_AMONG_MANY):
        found += await reader.rows(statement, namespace.id, kind, *batch)
    if not found:
        return None
    one = entry_securable(warehouse.id, namespace.levels, str(found[0][0]))
    return sorted(str(name) for _, name in found), one


async def held_children(
    reader: Reader, caller: Caller, warehouse: Warehouse, parent: Levels
) -> tuple[list[Namespace], Securable] | None:
    """The direct children of a namespace, or of the warehouse, that the caller may list; as above."""
    catalog = warehouse.id
    start = namespace_key(catalog, (*parent, ""))
    whole = len(namespace_key(catalog, ()))
    paths = [
        key[whole:]
        for key in _carriers(caller, Privilege.NAMESPACE_LIST)
        if key.startswith(start) and SEPARATOR not in key[len(start) :]
    ]
    found: list[Namespace] = []
    for statement, batch in _batches(paths, rows.CHILD_NAMESPACES_AMONG, rows.CHILD_NAMESPACES_AMONG_MANY):
        found += [namespace_from(row) for row in await reader.rows(statement, catalog, path_of(parent), *batch)]
    if not found:
        return None
    found.sort(key=lambda one: one.path)
    return found, namespace_securable(catalog, found[0].levels)


def _carriers(caller: Caller, privilege: Privilege) -> frozenset[str]:
    grants = caller.principal.grants
    return frozenset() if grants is None else grants.carriers(privilege)


def _batches(values: Sequence[str], few: str, many: str) -> Iterator[tuple[str, list[str]]]:
    """Statements of two sizes, and what fills their marks: no store keeps a plan for every number of them."""
    statement, size = (few, rows.HELD_BATCH) if len(values) <= rows.HELD_BATCH else (many, rows.HELD_LARGE_BATCH)
    for start in range(0, len(values), size):
        batch = list(values[start : start + size])
        yield statement, batch + [""] * (size - len(batch))
