"""Counts the contents of a catalog on request, for a migration."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from lakebed.meta.seam import Transaction, Value
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..access.authorization import Action, CatalogAuthorizer
from ..catalogs.service import CatalogService
from ..locations.directories import outermost
from ..model import Catalog, EntryKind
from . import rows
from .recovery_status import MigrationBlocker, RecoveryAction

_PAGE_ROWS: Final = 1000


@dataclass(frozen=True, slots=True)
class CatalogInventory:
    """The contents of a catalog, at one time."""

    catalog: Catalog
    store: str
    """The kind of the metadata store."""
    namespaces: int
    tables: int
    views: int
    generic_tables: int
    """Tables of other formats: they have no commits, and may have no directory."""
    dropped: int
    """Dropped tables and views that can be restored."""
    commits: int
    client_ids: int
    """Commits with a client's commit id."""
    directories: int
    unplaced: int
    """Tables and views without a recorded directory."""
    overlapping: int
    """Directories inside others."""
    shared_uuids: int
    """UUIDs of more than one table or view."""
    unlogged: int
    """Tables and views without a commit record of their current state."""
    ahead: int
    """Records of commits that their table does not have."""

    @property
    def blockers(self) -> list[MigrationBlocker]:
        """Problems to fix before the catalog can be migrated."""
        found = (
            (self.unlogged or self.ahead, MigrationBlocker.COMMIT_RECOVERY_REQUIRED),
            (self.unplaced, MigrationBlocker.WAREHOUSE_INDEX_BACKFILL_REQUIRED),
            (self.overlapping, MigrationBlocker.DUPLICATE_WAREHOUSE_PREFIX),
            (self.shared_uuids, MigrationBlocker.DUPLICATE_TABLE_IDENTITY),
        )
        return [blocker for count, blocker in found if count]

    @property
    def actions(self) -> list[RecoveryAction]:
        """The recommended actions."""
        repairable = self.unlogged or self.ahead or self.unplaced
        return [RecoveryAction.RUN_COMMIT_RECOVERY] if repairable else []


class CatalogInventories:
    """Counts the contents of catalogs."""

    def __init__(self, object_context: ObjectContext, authorizer: CatalogAuthorizer, catalogs: CatalogService) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs

    async def survey(self, caller: Caller, catalog_name: str) -> CatalogInventory:
        """Count the contents of a catalog. Raises NoSuchCatalog. The cost grows with the contents."""
        catalog = await self._authorized(caller, catalog_name, Action.GET_TABLE_BUCKET)
        number = catalog.id

        async def work(tx: Transaction) -> CatalogInventory:
            tables = views = generic = dropped = 0
            for kind, is_live, count in await tx.rows(rows.ENTRY_COUNTS, number):
                if not is_live:
                    dropped += count
                elif kind == EntryKind.TABLE:
                    tables += count
                elif kind == EntryKind.VIEW:
                    views += count
                else:
                    generic += count
            directories, overlapping = await _directories(tx, catalog)
            return CatalogInventory(
                catalog=catalog,
                store=self._f.meta.dialect,
                namespaces=await _count(tx, rows.NAMESPACE_COUNT, number),
                tables=tables,
                views=views,
                generic_tables=generic,
                dropped=dropped,
                commits=await _count(tx, rows.COMMIT_COUNT, number),
                client_ids=await _count(tx, rows.CLIENT_ID_COUNT, number),
                directories=directories,
                unplaced=await _count(tx, rows.UNPLACED_COUNT, number),
                overlapping=overlapping,
                shared_uuids=await _count(tx, rows.SHARED_UUIDS, number),
                unlogged=await _count(tx, rows.UNLOGGED_COUNT, number),
                ahead=await _count(tx, rows.AHEAD_COUNT, number),
            )

        return await self._f.meta.transact(work)

    async def fingerprint(self, caller: Caller, catalog_name: str) -> str:
        """A digest of all pointers of a catalog, which changes with every commit."""
        catalog = await self._authorized(caller, catalog_name, Action.CREATE_TABLE_BUCKET)

        async def work(tx: Transaction) -> str:
            digest = hashlib.sha256()
            after = ""
            while page := await tx.rows(rows.POINTERS_AFTER, catalog.id, after, _PAGE_ROWS):
                for row in page:
                    digest.update("\0".join(map(str, row)).encode() + b"\n")
                after = page[-1][0]
            return digest.hexdigest()

        return await self._f.meta.transact(work)

    async def authorize_change(self, caller: Caller, catalog_name: str) -> Catalog:
        """The catalog, if the caller can configure it. Raises NoSuchCatalog, AccessDenied."""
        return await self._authorized(caller, catalog_name, Action.CREATE_TABLE_BUCKET)

    async def _authorized(self, caller: Caller, catalog_name: str, action: Action) -> Catalog:
        catalog = await self._catalogs.find(self._f.meta, catalog_name)
        await self._authorizer.check(caller, catalog, action)
        return catalog


async def _count(tx: Transaction, statement: str, *args: Value) -> int:
    row = await tx.row(statement, *args)
    if row is None:
        raise RuntimeError("a count returned no row")
    return int(row[0])


async def _directories(tx: Transaction, catalog: Catalog) -> tuple[int, int]:
    """The number of recorded directories, and of those inside another."""
    count = overlapping = 0
    for directory in outermost(catalog.directories):
        around, after, is_within = "", "", True
        while is_within and (page := await tx.rows(rows.LOCATIONS, catalog.bucket.id, directory, after, _PAGE_ROWS)):
            for prefix, _ in page:
                is_within = prefix.startswith(directory)
                if not is_within:
                    break
                count += 1
                if around and prefix.startswith(around):
                    overlapping += 1
                else:
                    around = prefix
            after = page[-1][0]
    return count, overlapping
