"""Catalogs of the management API: several in one bucket, each in its own directories. Changes commit with events.

Table buckets are created by `service`, and are read, updated and deleted here like other catalogs.
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
    NotSupported,
    WriteConflict,
)
from lakebed.governance.rbac import SERVICE, Privilege, catalog_securable
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.governance.rbac.grant_cleanup import invalidate_catalog_grants
from lakebed.governance.rbac.model import ManagedCatalog, check_role_name, check_version
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.buckets.bucket import encode_settings, external_bucket_name
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller
from lakebed.objects.rows import UPDATE_BUCKET_SETTINGS

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..events import append_catalog_event
from ..external.storage.buckets import ensure_external_bucket, external_bucket
from ..external.storage.model import StorageProfile
from ..external.storage.profiles import StorageProfiles
from ..locations.directories import QUARANTINE_FOLDER
from ..model import Catalog, CatalogKind, Properties, pack_directories, pack_properties
from ..rows import catalog_from
from .base_locations import BASE_LOCATION, CatalogLocations, claim_locations, parse_locations
from .service import CatalogDefinition, check_catalog_properties, create_catalog, placeholder_catalog

_RESERVED_BY_ROUTES: Final = frozenset({"buckets"})
"""Names that would be read as another part of the catalog's paths."""


_END: Final = "\U0010ffff"
"""After every key of a bucket."""

CatalogStep = Callable[[Transaction, int], Awaitable[object]]
"""A further step of a transaction, given its time."""

ServerTableRemoval = Callable[[Catalog], Awaitable[None]]
"""Removes the tables that the server itself created in a catalog and that are no longer needed."""


class CatalogManagement:
    """The management API's use cases for catalogs."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        remove_server_tables: ServerTableRemoval,
        profiles: StorageProfiles | None = None,
    ) -> None:
        """Without `profiles`, no catalog has external storage."""
        self._f = object_context
        self._profiles = profiles
        self._authorizer = authorizer
        self._remove_server_tables = remove_server_tables

    async def create(
        self,
        by: Administrator,
        caller: Caller,
        name: str,
        *,
        kind: CatalogKind,
        properties: Mapping[str, str],
        allowed: Sequence[str],
        storage: StorageProfile | None = None,
        also: CatalogStep | None = None,
    ) -> ManagedCatalog:
        """Create a catalog in an existing bucket; its `default-base-location` is among the properties.

        With a `storage` profile the bucket is one of that object store, to which no request is made. `also` is a
        further step of the transaction. Requires the privilege to create catalogs; the bucket's policy can deny it.
        Raises InvalidName, InvalidInput, LocationTaken, NoSuchBucket, AlreadyExists, AccessDenied.
        """
        await by.authorize("createCatalog")
        f = self._f
        _check_name(name)
        base, kept = _split(properties)
        if base is None:
            raise InvalidInput(f"property {BASE_LOCATION} is missing", argument=BASE_LOCATION)
        check_catalog_properties(kept)
        places = parse_locations(base, allowed)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> ManagedCatalog:
            bucket = await (f.bucket(tx, places.bucket) if storage is None else ensure_external_bucket(tx, authorized))
            if storage is None and bucket.id != authorized.id:
                raise WriteConflict(f"bucket was recreated concurrently. bucket={places.bucket}")
            definition = CatalogDefinition(name, places, kind, kept)
            made = await create_catalog(tx, f, bucket, definition, by.principal, now_ms)
            if storage is not None:
                await self._required_profiles().put(tx, made.id, storage, now_ms)
            await append_catalog_event(f.outbox, tx, "CatalogCreated", caller, now_ms, name)
            if also is not None:
                await also(tx, now_ms)
            return await find_catalog(tx, name)

        if storage is not None:
            self._required_profiles().check(storage, places.bucket)
        try:
            authorized = (
                await f.bucket(f.meta, places.bucket)
                if storage is None
                else external_bucket(storage, places.bucket, by.principal.account, f.region, now_ms)
            )
            await self._authorizer.check(
                caller,
                placeholder_catalog(authorized, name),
                Action.CREATE_TABLE_BUCKET,
                securable=SERVICE,
                privileges=(Privilege.CATALOG_CREATE,),
            )
            return await f.meta.transact(work)
        except NoSuchBucket as error:
            raise InvalidInput(
                f"bucket of the catalog does not exist: create it first. For a bucket of another object store, set"
                f" endpoint, storageName or roleArn in storageConfigInfo. bucket={places.bucket}",
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
        storage: StorageProfile | None = None,
    ) -> ManagedCatalog:
        """Replace the properties, the allowed locations or the storage profile of a catalog at `version`.

        None keeps them.

        From the next request on, credentials no longer cover removed locations, even if tables are there. Raises
        NoSuchCatalog, PreconditionFailed, InvalidInput, LocationTaken, AccessDenied.
        """
        f = self._f
        now_ms = f.clock.now_ms()
        authorized = await self._authorized(by, "updateCatalog", name)

        async def work(tx: Transaction) -> ManagedCatalog:
            catalog = await _find_unchanged(tx, authorized)
            check_version((await find_catalog(tx, name)).version, version)
            kept = catalog.properties if properties is None else _unmoved(catalog, properties)
            check_catalog_properties(kept)
            places = CatalogLocations(catalog.bucket_name, catalog.base_prefix, catalog.allowed)
            if allowed is not None:
                places = parse_locations(catalog.base_location, allowed)
                await claim_locations(tx, catalog.bucket, places, catalog.id)
            if storage is not None:
                await self._replace_profile(tx, catalog, storage, now_ms)
            packed = pack_directories(places.allowed)
            await tx.run(rows.CONFIGURE_CATALOG, packed, pack_properties(kept), now_ms, catalog.id)
            await append_catalog_event(f.outbox, tx, "CatalogConfigured", caller, now_ms, name)
            return await find_catalog(tx, name)

        return await f.meta.transact(work)

    async def delete(self, by: Administrator, caller: Caller, name: str, first: CatalogStep | None = None) -> None:
        """Delete an empty catalog with its roles; its bucket stays. Raises NoSuchCatalog, CatalogNotEmpty.

        `first` is a step of the transaction before the check that the catalog is empty.
        """
        f = self._f
        now_ms = f.clock.now_ms()
        authorized = await self._authorized(by, "deleteCatalog", name)
        await self._remove_server_tables(authorized)

        async def work(tx: Transaction) -> None:
            catalog = await _find_unchanged(tx, authorized)
            if first is not None:
                await first(tx, now_ms)
            bucket = catalog.bucket
            if await tx.row(rows.CATALOG_HAS_NAMESPACES, catalog.id) is not None:
                raise CatalogNotEmpty(f"catalog is not empty: it contains namespaces. catalog={name}")
            held = f"{catalog.reserved_prefix}{QUARANTINE_FOLDER}"
            if await tx.row(rows.HAS_QUARANTINED_WITHIN, bucket.id, held, successor(held)) is not None:
                # Quarantined files are unreadable as long as the catalog exists; without it they would not be
                # protected.
                raise CatalogNotEmpty(
                    f"catalog is not empty: it has files in quarantine; release or purge them. catalog={name}"
                )
            if catalog.storage_revision is not None and await _has_claimed_directories(tx, catalog):
                # The purge of a dropped table needs the storage profile.
                raise CatalogNotEmpty(
                    f"catalog is not empty: the files of a dropped table are being purged; retry later. catalog={name}"
                )
            await invalidate_catalog_grants(tx, catalog.id)
            await tx.run(rows.DELETE_CATALOG, catalog.id)
            if catalog.storage_revision is None and not await tx.rows(rows.CATALOGS_OF_BUCKET, bucket.id):
                settings = msgspec.structs.replace(bucket.settings, tables=False)
                await tx.run(UPDATE_BUCKET_SETTINGS, encode_settings(settings), bucket.id)
            await append_catalog_event(f.outbox, tx, "CatalogDeleted", caller, now_ms, name)

        await f.meta.transact(work)

    async def _replace_profile(self, tx: Transaction, catalog: Catalog, storage: StorageProfile, now_ms: int) -> None:
        """Replace the storage profile of a catalog, in the same bucket of the same store. Raises InvalidInput."""
        profiles = self._required_profiles()
        profiles.check(storage, catalog.bucket_name)
        if catalog.bucket.name != external_bucket_name(storage.authority, catalog.bucket_name):
            raise InvalidInput(
                f"a catalog cannot move to another object store: create another catalog there."
                f" found={storage.authority} expected={catalog.bucket.name}",
                argument="endpoint",
            )
        await profiles.put(tx, catalog.id, storage, now_ms)

    def _required_profiles(self) -> StorageProfiles:
        if self._profiles is None:
            raise NotSupported("this server does not support catalogs over external storage")
        return self._profiles

    async def _authorized(self, by: Administrator, operation: str, name: str) -> Catalog:
        """The catalog, if the caller has the permission for the operation. Raises NoSuchCatalog, AccessDenied."""
        catalog = await _find(self._f.meta, name)
        await by.authorize(operation, catalog_securable(catalog.id), resource=catalog.arn)
        return catalog


async def _find(reader: Reader, name: str) -> Catalog:
    row = await reader.row(rows.CATALOG, name)
    if row is None:
        raise NoSuchCatalog(f"no such catalog. name={name}")
    return catalog_from(row)


async def _has_claimed_directories(tx: Transaction, catalog: Catalog) -> bool:
    for directory in catalog.directories:
        if await tx.row(rows.OTHERS_WITHIN, catalog.bucket.id, directory, successor(directory) or _END, "") is not None:
            return True
    return False


async def _find_unchanged(tx: Transaction, authorized: Catalog) -> Catalog:
    """The same catalog inside the transaction. Raises NoSuchCatalog, WriteConflict."""
    found = await _find(tx, authorized.name)
    if found.id != authorized.id:
        raise WriteConflict(f"catalog was recreated concurrently. name={authorized.name}")
    return found


def _check_name(name: str) -> None:
    check_role_name(name)
    if name in _RESERVED_BY_ROUTES:
        raise InvalidName(f"catalog name is reserved for a path of the API: {name!r}", argument="name", value=name)


def _split(properties: Mapping[str, str]) -> tuple[str | None, Properties]:
    """The base location, which has its own column, and the other properties."""
    return properties.get(BASE_LOCATION), {key: value for key, value in properties.items() if key != BASE_LOCATION}


def _unmoved(catalog: Catalog, properties: Mapping[str, str]) -> Properties:
    """The properties to store. Raises InvalidInput if they would move the catalog."""
    base, kept = _split(properties)
    if base is not None and parse_locations(base, ()) != CatalogLocations(catalog.bucket_name, catalog.base_prefix):
        raise InvalidInput(
            f"base location of a catalog cannot change: allow further locations instead. found={catalog.base_location}",
            argument=BASE_LOCATION,
        )
    return kept
