"""Catalogs made by name: several in one bucket, each in directories of its own. Each change commits with its events.

A table bucket is such a catalog too, made another way (`catalogs`): it is shown, changed and deleted here as any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from lakebed.core.errors import (
    CatalogNotEmpty,
    InvalidInput,
    InvalidName,
    NoSuchBucket,
    NoSuchCatalog,
    WriteConflict,
)
from lakebed.governance.rbac import SERVICE, Privilege, catalog_securable
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.governance.rbac.grant_cleanup import invalidate_catalog_grants
from lakebed.governance.rbac.model import ManagedCatalog, check_role_name, check_version
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.buckets.bucket import encode_settings
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller
from lakebed.objects.rows import UPDATE_BUCKET_SETTINGS

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..events import append_catalog_event
from ..locations.directories import QUARANTINE_FOLDER
from ..model import Catalog, CatalogKind, Properties, pack_directories, pack_properties
from ..rows import catalog_from
from .base_locations import BASE_LOCATION, CatalogLocations, claim_locations, parse_locations
from .service import CatalogDefinition, check_catalog_properties, create_catalog, placeholder_catalog

_TAKEN_BY_ROUTES: Final = frozenset({"buckets"})
"""Names that would be read as another part of the catalog's paths."""


CatalogStep = Callable[[Transaction, int], Awaitable[object]]
"""What else a transaction does, at a time."""

ServerTableRemoval = Callable[[Catalog], Awaitable[None]]
"""Takes out of a catalog what the server has put there by itself and nobody needs any more."""


class CatalogManagement:
    """The use cases of catalogs, for those who may manage them."""

    def __init__(self, object_context: ObjectContext, authorizer: CatalogAuthorizer, leave: ServerTableRemoval) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._leave = leave

    async def create(
        self,
        by: Administrator,
        caller: Caller,
        name: str,
        *,
        kind: CatalogKind,
        properties: Mapping[str, str],
        allowed: Sequence[str],
        also: CatalogStep | None = None,
    ) -> ManagedCatalog:
        """Make a catalog in a bucket that is there; its `default-base-location` is among the properties.

        `also` is a further step of the transaction that makes it.

        Whoever makes it needs the right to make catalogs, and none is made in a bucket whose policy denies it. Raises
        InvalidName, InvalidInput, LocationConflict, NoSuchBucket, AlreadyExists, AccessDenied.
        """
        await by.check("createCatalog")
        f = self._f
        _check_name(name)
        base, kept = _split(properties)
        if base is None:
            raise InvalidInput(f"a catalog has a {BASE_LOCATION} among its properties", argument=BASE_LOCATION)
        check_catalog_properties(kept)
        places = parse_locations(base, allowed)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> ManagedCatalog:
            bucket = await f.bucket(tx, places.bucket)
            if bucket.id != asked.id:
                raise WriteConflict(f"the bucket was made anew meanwhile. bucket={places.bucket}")
            await create_catalog(tx, f, bucket, CatalogDefinition(name, places, kind, kept), by.principal, now_ms)
            await append_catalog_event(f.outbox, tx, "CatalogCreated", caller, now_ms, name)
            if also is not None:
                await also(tx, now_ms)
            return await find_catalog(tx, name)

        try:
            asked = await f.bucket(f.meta, places.bucket)
            await self._authorizer.check(
                caller,
                placeholder_catalog(asked, name),
                Action.CREATE_TABLE_BUCKET,
                securable=SERVICE,
                privileges=(Privilege.CATALOG_CREATE,),
            )
            return await f.meta.transact(work)
        except NoSuchBucket as error:
            raise InvalidInput(
                f"catalogs are made in buckets of this server: create the bucket first. bucket={places.bucket}",
                argument=BASE_LOCATION,
            ) from error

    async def update(
        self,
        by: Administrator,
        caller: Caller,
        name: str,
        *,
        version: int,
        properties: Mapping[str, str] | None = None,
        allowed: Sequence[str] | None = None,
    ) -> ManagedCatalog:
        """Replace the properties, or the allowed locations, of a catalog that is at `version`; None leaves them.

        What is not allowed any more is not handed out from the next request on, though tables are there. Raises
        NoSuchCatalog, PreconditionFailed, InvalidInput, LocationConflict, AccessDenied.
        """
        f = self._f
        now_ms = f.clock.now_ms()
        asked = await self._admitted(by, "updateCatalog", name)

        async def work(tx: Transaction) -> ManagedCatalog:
            catalog = await _found_again(tx, asked)
            check_version((await find_catalog(tx, name)).version, version)
            kept = catalog.properties if properties is None else _unmoved(catalog, properties)
            check_catalog_properties(kept)
            places = CatalogLocations(catalog.bucket.name, catalog.base_prefix, catalog.allowed)
            if allowed is not None:
                places = parse_locations(catalog.base_location, allowed)
                await claim_locations(tx, catalog.bucket, places, catalog.id)
            packed = pack_directories(places.allowed)
            await tx.run(rows.CONFIGURE_CATALOG, packed, pack_properties(kept), now_ms, catalog.id)
            await append_catalog_event(f.outbox, tx, "CatalogConfigured", caller, now_ms, name)
            return await find_catalog(tx, name)

        return await f.meta.transact(work)

    async def delete(self, by: Administrator, caller: Caller, name: str, first: CatalogStep | None = None) -> None:
        """Remove an empty catalog with its roles; its bucket stays. Raises NoSuchCatalog, CatalogNotEmpty.

        `first` is a step of the transaction that removes it, before it is looked whether the catalog is empty.
        """
        f = self._f
        now_ms = f.clock.now_ms()
        asked = await self._admitted(by, "deleteCatalog", name)
        await self._leave(asked)

        async def work(tx: Transaction) -> None:
            catalog = await _found_again(tx, asked)
            if first is not None:
                await first(tx, now_ms)
            bucket = catalog.bucket
            if await tx.row(rows.CATALOG_HAS_NAMESPACES, catalog.id) is not None:
                raise CatalogNotEmpty(f"the catalog is not empty: it still holds namespaces. catalog={name}")
            held = f"{catalog.reserved_prefix}{QUARANTINE_FOLDER}"
            if await tx.row(rows.HAS_QUARANTINED_WITHIN, bucket.id, held, successor(held)) is not None:
                # Nobody may read them while the catalog stands, and nobody would keep them from anybody without it.
                raise CatalogNotEmpty(
                    f"the catalog is not empty: maintenance holds files in quarantine: release or purge them."
                    f" catalog={name}"
                )
            await invalidate_catalog_grants(tx, catalog.id)
            await tx.run(rows.DELETE_CATALOG, catalog.id)
            if not await tx.rows(rows.CATALOGS_OF_BUCKET, bucket.id):
                settings = msgspec.structs.replace(bucket.settings, tables=False)
                await tx.run(UPDATE_BUCKET_SETTINGS, encode_settings(settings), bucket.id)
            await append_catalog_event(f.outbox, tx, "CatalogDeleted", caller, now_ms, name)

        await f.meta.transact(work)

    async def _admitted(self, by: Administrator, operation: str, name: str) -> Catalog:
        """The catalog, if the caller may do the operation. Raises NoSuchCatalog, AccessDenied."""
        catalog = await _find(self._f.meta, name)
        await by.check(operation, catalog_securable(catalog.id), resource=catalog.arn)
        return catalog


async def _find(reader: Reader, name: str) -> Catalog:
    row = await reader.row(rows.CATALOG, name)
    if row is None:
        raise NoSuchCatalog(f"no such catalog. name={name}")
    return catalog_from(row)


async def _found_again(tx: Transaction, asked: Catalog) -> Catalog:
    """The catalog that was asked about before the transaction. Raises NoSuchCatalog, WriteConflict."""
    found = await _find(tx, asked.name)
    if found.id != asked.id:
        raise WriteConflict(f"the catalog was made anew meanwhile. name={asked.name}")
    return found


def _check_name(name: str) -> None:
    check_role_name(name)
    if name in _TAKEN_BY_ROUTES:
        raise InvalidName(f"paths of the catalog begin with this word: {name!r}", argument="name", value=name)


def _split(properties: Mapping[str, str]) -> tuple[str | None, Properties]:
    """The base location, and the rest: the first is a column of its own."""
    return properties.get(BASE_LOCATION), {key: value for key, value in properties.items() if key != BASE_LOCATION}


def _unmoved(catalog: Catalog, properties: Mapping[str, str]) -> Properties:
    """The properties to be kept. Raises InvalidInput if they would move the catalog."""
    base, kept = _split(properties)
    if base is not None and parse_locations(base, ()) != CatalogLocations(catalog.bucket.name, catalog.base_prefix):
        raise InvalidInput(
            f"a catalog stays where it was made: allow further locations instead. at={catalog.base_location}",
            argument=BASE_LOCATION,
        )
    return kept
