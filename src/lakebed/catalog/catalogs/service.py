"""Catalogs: find, list, get; and table buckets, which are catalogs of a whole bucket under its name.

Catalogs with other names and locations are created by `management`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from lakebed.core.access import Principal, ResourceRules
from lakebed.core.delegation import AccessDelegation
from lakebed.core.errors import AccessDenied, AlreadyExists, Corrupted, InvalidInput, NoSuchCatalog
from lakebed.governance.rbac import SERVICE, Privilege, catalog_securable
from lakebed.governance.rbac.catalog_roles import create_catalog_admin
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.buckets.bucket import Bucket, encode_settings
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller
from lakebed.objects.rows import UPDATE_BUCKET_SETTINGS

from .. import rows
from ..access.authorization import Action, CatalogAuthorizer
from ..events import append_catalog_event
from ..external.checks import reject_federated
from ..model import Catalog, CatalogKind, Page, Properties, pack_directories, pack_properties
from ..rows import catalog_from
from .base_locations import CatalogLocations, claim_locations
from .properties import changed_properties, check_properties

UNDROP_WINDOW: Final = "undrop-window-seconds"
"""The property for how long dropped tables can be restored, in seconds; 0 or unset: not at all."""

ACCESS_DELEGATION: Final = "access-delegation"
"""The property that restricts access delegation to the files of tables."""

CLIENT_LOCATIONS: Final = "client-locations"
"""The property for whether clients choose locations of tables."""

ALLOWED: Final = "allowed"
REFUSED: Final = "refused"

MAX_UNDROP_SECONDS: Final = 365 * 86_400


@dataclass(frozen=True, slots=True)
class CatalogDefinition:
    """A catalog to create."""

    name: str
    places: CatalogLocations
    kind: CatalogKind = CatalogKind.INTERNAL
    properties: Properties = field(default_factory=dict)


class CatalogService:
    """The use cases of catalogs and table buckets."""

    def __init__(self, object_context: ObjectContext, authorizer: CatalogAuthorizer) -> None:
        self._f = object_context
        self._authorizer = authorizer

    async def find(self, reader: Reader, name: str) -> Catalog:
        """The catalog, without authorization.

        Raises NoSuchCatalog; NotSupported for a federated catalog.
        """
        return reject_federated(await self.find_any(reader, name))

    async def find_any(self, reader: Reader, name: str) -> Catalog:
        """The same, also for a federated catalog. Raises NoSuchCatalog."""
        row = await reader.row(rows.CATALOG, name)
        if row is None:
            raise NoSuchCatalog(
                f"no such catalog or table bucket; create it, or enable a bucket for tables. catalog={name}"
            )
        return catalog_from(row)

    async def precheck(self, caller: Caller, name: str, actions: Sequence[Action]) -> None:
        """Reject a caller without permission for any of the actions in a catalog, before its request is read.

        Reads nothing if the caller's own policies or roles could allow one. Raises NoSuchCatalog, AccessDenied.
        """
        own = ResourceRules(owner=caller.principal.account)
        if self._authorizer.could_allow(caller, own, 0, actions):
            return
        found = await self.find_any(self._f.meta, name)
        if not self._authorizer.could_allow(caller, found.bucket.access_rules, found.id, actions):
            raise AccessDenied(
                f"no policy and no grant allows the request. principal={caller.principal.caller_arn}"
                f" action={' or '.join(actions)} table-bucket={name}"
            )

    async def enable(self, caller: Caller, name: str) -> Catalog:
        """Make a bucket a table bucket. Idempotent.

        Raises NoSuchBucket; InvalidInput if its lifecycle expires objects; LocationTaken if catalogs have directories
        in it; AlreadyExists if a catalog at another location has its name.
        """
        f = self._f
        now_ms = f.clock.now_ms()
        bucket = await f.bucket(f.meta, name)
        there = await f.meta.row(rows.CATALOG, name)
        await self._authorizer.check(
            caller,
            placeholder_catalog(bucket, name),
            Action.CREATE_TABLE_BUCKET,
            securable=SERVICE if there is None else catalog_securable(catalog_from(there).id),
        )

        async def work(tx: Transaction) -> Catalog:
            bucket = await f.bucket(tx, name)
            row = await tx.row(rows.CATALOG, name)
            if row is None:
                new = CatalogDefinition(name, CatalogLocations(name, ""))
                made = await create_catalog(tx, f, bucket, new, caller.principal, now_ms)
                await append_catalog_event(f.outbox, tx, "TableBucketEnabled", caller, now_ms, name)
                return made
            found = catalog_from(row)
            if found.bucket.id != bucket.id or not found.is_table_bucket:
                raise AlreadyExists(
                    f"a catalog at another location has the name of the bucket. catalog={name}"
                    f" location={found.base_location}"
                )
            return found

        return await f.meta.transact(work)

    async def get(self, caller: Caller, name: str) -> Catalog:
        """The catalog. Raises NoSuchCatalog, AccessDenied."""
        catalog = await self.find_any(self._f.meta, name)
        await self._authorizer.check(caller, catalog, Action.GET_TABLE_BUCKET)
        return catalog

    async def enter(self, caller: Caller, name: str) -> Catalog:
        """The same for clients that load the configuration: any role of the catalog is sufficient."""
        catalog = await self.find_any(self._f.meta, name)
        await self._authorizer.check(
            caller, catalog, Action.GET_TABLE_BUCKET, privileges=(Privilege.CATALOG_ROLE_USAGE,)
        )
        return catalog

    async def list(self, caller: Caller, *, after: str, limit: int) -> Page[Catalog]:
        """The table buckets of the caller's account, by name."""
        account = caller.principal.account
        await self._f.authorize_resource(
            caller,
            ResourceRules(owner=account),
            Action.LIST_TABLE_BUCKETS,
            f"arn:aws:s3tables:{self._f.region}:{account}:bucket/*",
            securable=SERVICE,
            privileges=(Privilege.CATALOG_LIST,),
        )
        found = await self._f.meta.rows(rows.CATALOGS_AFTER, account, after, limit + 1)
        return Page.of([catalog_from(row) for row in found], limit)

    async def set_properties(
        self, caller: Caller, name: str, *, updates: Mapping[str, str], removals: Sequence[str]
    ) -> Catalog:
        """Update its properties. Raises InvalidInput."""
        f = self._f
        now_ms = f.clock.now_ms()
        await self._authorizer.check(caller, await self.find_any(f.meta, name), Action.CREATE_TABLE_BUCKET)

        async def work(tx: Transaction) -> Catalog:
            catalog = await self.find_any(tx, name)
            properties, _ = changed_properties(catalog.properties, updates, removals)
            check_catalog_properties(properties)
            packed = pack_properties(properties)
            await tx.run(rows.CONFIGURE_CATALOG, catalog.packed_allowed, packed, now_ms, catalog.id)
            await append_catalog_event(f.outbox, tx, "TableBucketConfigured", caller, now_ms, name)
            return catalog._replace(packed_properties=packed)

        return await f.meta.transact(work)


def placeholder_catalog(bucket: Bucket, name: str) -> Catalog:
    """A catalog that does not exist yet, for authorization; its id is that of no catalog."""
    return Catalog(
        bucket,
        0,
        name,
        "",
        CatalogKind.INTERNAL,
        None,
        pack_properties({}),
        0,
        restricts=False,
        is_federated=False,
        storage_revision=None,
    )


async def create_catalog(
    tx: Transaction, f: ObjectContext, bucket: Bucket, new: CatalogDefinition, by: Principal, now_ms: int
) -> Catalog:
    """Create a catalog with its administrators, and mark its bucket as holding tables: a step of a transaction.

    Append no event before it. Raises AlreadyExists, LocationTaken; InvalidInput if the bucket's lifecycle expires
    objects.
    """
    if not bucket.holds_tables:
        lifecycle = bucket.settings.lifecycle
        if lifecycle is not None and lifecycle.expires_objects:
            # The rules would be stored and never run: only the table knows which old files it still uses.
            raise InvalidInput(
                "bucket of tables has lifecycle rules that expire objects: remove the rules first."
                f" bucket={bucket.name}",
                argument="lifecycle",
            )
        settings = encode_settings(msgspec.structs.replace(bucket.settings, tables=True))
        await tx.run(UPDATE_BUCKET_SETTINGS, settings, bucket.id)
    made = await tx.row(
        rows.INSERT_CATALOG,
        new.name,
        bucket.id,
        new.places.base_prefix,
        new.kind,
        pack_directories(new.places.allowed),
        pack_properties(dict(new.properties)),
        now_ms,
        now_ms,
    )
    if made is None:
        raise AlreadyExists(f"catalog already exists. catalog={new.name}")
    await claim_locations(tx, bucket, new.places, int(made[0]))
    await create_catalog_admin(tx, f.outbox, int(made[0]), new.name, by, now_ms)
    found = await tx.row(rows.CATALOG, new.name)
    if found is None:
        raise Corrupted(f"created catalog was not found. catalog={new.name}")
    return catalog_from(found)


def undrop_window_ms(catalog: Catalog) -> int:
    """How long dropped tables of this catalog can be restored."""
    return int(catalog.properties.get(UNDROP_WINDOW, "0")) * 1000


def access_delegation(catalog: Catalog) -> AccessDelegation:
    """The access delegation that this catalog allows, if the server allows as much."""
    return AccessDelegation(catalog.properties.get(ACCESS_DELEGATION, AccessDelegation.VENDED))


def takes_client_locations(catalog: Catalog) -> bool:
    """Whether clients choose locations of tables in this catalog."""
    return catalog.properties.get(CLIENT_LOCATIONS, ALLOWED) == ALLOWED


def check_catalog_properties(properties: Properties) -> None:
    """Raise InvalidInput for invalid properties of a catalog."""
    check_properties(properties)
    window = properties.get(UNDROP_WINDOW, "0")
    if not (window.isascii() and window.isdigit() and int(window) <= MAX_UNDROP_SECONDS):
        raise InvalidInput(
            f"{UNDROP_WINDOW} must be a whole number of seconds, at most {MAX_UNDROP_SECONDS}", argument=UNDROP_WINDOW
        )
    if properties.get(ACCESS_DELEGATION, AccessDelegation.VENDED) not in tuple(AccessDelegation):
        raise InvalidInput(
            f"{ACCESS_DELEGATION} must be one of {', '.join(AccessDelegation)}", argument=ACCESS_DELEGATION
        )
    if properties.get(CLIENT_LOCATIONS, ALLOWED) not in (ALLOWED, REFUSED):
        raise InvalidInput(f"{CLIENT_LOCATIONS} must be {ALLOWED} or {REFUSED}", argument=CLIENT_LOCATIONS)
