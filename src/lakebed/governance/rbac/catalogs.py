"""Finds catalogs, and the targets of grants in them, by name."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.core.access import Securable
from lakebed.core.errors import (
    InvalidName,
    NoSuchCatalog,
    NoSuchNamespace,
    NoSuchPolicy,
    NoSuchTable,
    NoSuchView,
    NotFound,
)
from lakebed.meta.seam import Reader

from . import rows
from .administrator import Administrator
from .model import LEVEL_SEPARATOR, GrantTarget, ManagedCatalog
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


class ResolvedTarget(NamedTuple):
    """The target of a grant, as far as it exists."""

    securable: Securable
    """The target, or its namespace if it does not exist."""

    key: str
    namespace: int | None = None
    entry: str | None = None
    policy: int | None = None
    """The row that the grant refers to; all three are None for the catalog."""

    missing: NotFound | None = None
    """The error if the target does not exist. Raise it after authorization only."""


class Catalogs:
    """The read operations on catalogs, each authorized."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def list(self, by: Administrator) -> list[ManagedCatalog]:
        """All catalogs, ordered by name."""
        await by.authorize("listCatalogs")
        return [rows.catalog_from(row) for row in await self._reader.rows(rows.CATALOGS)]

    async def get(self, by: Administrator, name: str) -> ManagedCatalog:
        """A catalog. Raises NoSuchCatalog."""
        catalog = await find_catalog(self._reader, name)
        await by.authorize("getCatalog", catalog_securable(catalog.id), resource=catalog.arn)
        return catalog


async def find_catalog(reader: Reader, name: str) -> ManagedCatalog:
    """A catalog by name. Raises NoSuchCatalog."""
    row = await reader.row(rows.CATALOG, name)
    if row is None:
        raise NoSuchCatalog(f"no such catalog. name={name}")
    return rows.catalog_from(row)


async def resolve_target(reader: Reader, catalog: ManagedCatalog, target: GrantTarget) -> ResolvedTarget:
    """Find the target of a grant, with up to two reads. Raises InvalidName."""
    if target.kind is GrantKind.CATALOG:
        return ResolvedTarget(catalog_securable(catalog.id), catalog_key(catalog.id))
    levels = target.namespace
    parent = namespace_securable(catalog.id, levels)
    namespace = await find_namespace(reader, catalog.id, levels)
    if namespace is None:
        return ResolvedTarget(parent, "", missing=NoSuchNamespace(f"Namespace does not exist: {'.'.join(levels)}"))
    if target.kind is GrantKind.NAMESPACE:
        return ResolvedTarget(parent, namespace_key(catalog.id, levels), namespace=namespace)
    if target.kind is GrantKind.POLICY:
        row = await reader.row(rows.POLICY, namespace, target.name)
        if row is None:
            return ResolvedTarget(parent, "", missing=NoSuchPolicy(f"no such policy: {target}"))
        policy = int(row[0])
        return ResolvedTarget(policy_securable(catalog.id, levels, policy), policy_key(policy), policy=policy)
    row = await reader.row(rows.ENTRY, namespace, target.name, *rows.entry_kinds(target.kind))
    if row is None:
        kind = NoSuchTable if target.kind is GrantKind.TABLE else NoSuchView
        return ResolvedTarget(parent, "", missing=kind(f"no such {target}"))
    entry = str(row[0])
    return ResolvedTarget(entry_securable(catalog.id, levels, entry), entry_key(entry), entry=entry)


async def find_namespace(reader: Reader, catalog: int, levels: tuple[str, ...]) -> int | None:
    """The id of a namespace; None if it does not exist. Raises InvalidName for an invalid level."""
    for level in levels:
        if not level or LEVEL_SEPARATOR in level or "\0" in level:
            raise InvalidName(f"not a level of a namespace: {level[:80]!r}", argument="namespace", value=level[:80])
    row = await reader.row(rows.NAMESPACE, catalog, LEVEL_SEPARATOR.join(levels))
    return None if row is None else int(row[0])
