"""Catalogs, and what is in them, found by name for those who manage access to them."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.core.access import Securable
from lakebed.core.errors import (
    InvalidName,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    NotFound,
)
from lakebed.meta.seam import Reader

from . import rows
from .administering import Administrator
from .model import LEVEL_SEPARATOR, Catalog, GrantTarget
from .privileges import GrantKind
from .securables import (
    catalog_key,
    catalog_securable,
    entry_key,
    entry_securable,
    namespace_key,
    namespace_securable,
    policy_key,
    policy_securable,
)


class Place(NamedTuple):
    """Something in a catalog, by ids: as far as it is there."""

    securable: Securable
    """The thing, or the innermost of what it would lie in that there is."""

    key: str
    namespace: int | None = None
    entry: str | None = None
    policy: int | None = None
    """What its row refers to: none of the three for the catalog itself."""

    missing: NotFound | None = None
    """Why it is not there. To be raised behind the question whether the caller may know."""


class Catalogs:
    """Finding catalogs."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def list(self, by: Administrator) -> list[Catalog]:
        """All catalogs, by name."""
        by.check("listCatalogs")
        return [rows.catalog_from(row) for row in await self._reader.rows(rows.CATALOGS)]

    async def get(self, by: Administrator, name: str) -> Catalog:
        """A catalog. Raises NoSuchWarehouse."""
        catalog = await find_catalog(self._reader, name)
        by.check("getCatalog", catalog_securable(catalog.id), resource=catalog.arn)
        return catalog


async def find_catalog(reader: Reader, name: str) -> Catalog:
    """The catalog of that name. Raises NoSuchWarehouse."""
    row = await reader.row(rows.CATALOG, name)
    if row is None:
        raise NoSuchWarehouse(f"no such catalog. name={name}")
    return rows.catalog_from(row)


async def find_place(reader: Reader, catalog: Catalog, target: GrantTarget) -> Place:
    """What a grant is on: one read for its namespaces, one for the thing itself. Raises InvalidName."""
    if target.kind is GrantKind.CATALOG:
        return Place(catalog_securable(catalog.id), catalog_key(catalog.id))
    lineage = await find_lineage(reader, catalog.id, target.namespace)
    around = namespace_securable(catalog.id, lineage)
    if not target.namespace or len(lineage) < len(target.namespace):
        gone = NoSuchNamespace(f"Namespace does not exist: {'.'.join(target.namespace)}")
        return Place(around, "", missing=gone)
    namespace = lineage[-1]
    if target.kind is GrantKind.NAMESPACE:
        return Place(around, namespace_key(namespace), namespace=namespace)
    if target.kind is GrantKind.POLICY:
        row = await reader.row(rows.POLICY, namespace, target.name)
        if row is None:
            return Place(around, "", missing=NoSuchPolicy(f"no such policy: {target}"))
        policy = int(row[0])
        return Place(policy_securable(catalog.id, lineage, policy), policy_key(policy), policy=policy)
    row = await reader.row(rows.ENTRY, namespace, target.name, target.kind)
    if row is None:
        kind = NoSuchTable if target.kind is GrantKind.TABLE else NoSuchView
        return Place(around, "", missing=kind(f"no such {target}"))
    entry = str(row[0])
    return Place(entry_securable(catalog.id, lineage, entry), entry_key(entry), entry=entry)


async def find_lineage(reader: Reader, catalog: int, namespace: tuple[str, ...]) -> list[int]:
    """The ids of a namespace and of all that it lies in, outermost first, as far as they are there.

    One read for each 16 levels. Raises InvalidName for a level that would be read as two.
    """
    for level in namespace:
        if not level or LEVEL_SEPARATOR in level or "\0" in level:
            raise InvalidName(f"not a level of a namespace: {level[:80]!r}", argument="namespace", value=level[:80])
    paths = [LEVEL_SEPARATOR.join(namespace[:depth]) for depth in range(1, len(namespace) + 1)]
    found: dict[str, int] = {}
    for start in range(0, len(paths), rows.PATHS_AT_ONCE):
        asked = paths[start : start + rows.PATHS_AT_ONCE]
        blank = [""] * (rows.PATHS_AT_ONCE - len(asked))
        found.update(dict(await reader.rows(rows.NAMESPACE_IDS, catalog, *asked, *blank)))
    lineage: list[int] = []
    for path in paths:
        if path not in found:
            break
        lineage.append(found[path])
    return lineage
