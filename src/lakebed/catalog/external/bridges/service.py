"""Bridges: configured, shown and removed."""

from __future__ import annotations

from uuid import uuid4

from lakebed.catalog.access.authorization import CREATE_OR_MOVE, Action, CatalogAuthorizer
from lakebed.catalog.entries import Entries, ResolvedName
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.tables.files import parse_location
from lakebed.core.errors import NotFound
from lakebed.governance.credentials.vault import Vault
from lakebed.meta.seam import Reader, Transaction
from lakebed.net.hosts import AllowedHosts
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.authentication import check_hosts
from ..remote.model import NO_SECRETS, RemoteSecrets
from . import rows
from .configuration import check_config
from .model import (
    Bridge,
    BridgeConfig,
    Bridged,
    BridgedCatalogKind,
    BridgeState,
    SyncMode,
    encode_config,
    encode_state,
    external_name,
)

PURPOSE = "external catalog secrets"
"""What the vault seals for."""


class Bridges:
    """The use cases of bridges, but for following them."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        vault: Vault,
        hosts: AllowedHosts,
    ) -> None:
        """`hosts` are those that bridges to other catalogs may lead to."""
        self._f = object_context
        self._authorizer = authorizer
        self._entries = entries
        self._vault = vault
        self._hosts = hosts

    async def get(self, caller: Caller, catalog_name: str, identifier: Identifier) -> Bridged:
        """The bridge of a name, if it has one. The table need not be there, its namespace must: NoSuchNamespace."""
        found = await self._admitted(caller, catalog_name, identifier, Action.GET_METADATA_LOCATION)
        return await self.of(self._f.meta, found, identifier)

    async def of(self, reader: Reader, found: ResolvedName, identifier: Identifier) -> Bridged:
        """The bridge of a name that was looked up."""
        row = await reader.row(rows.FIND, found.namespace.id, identifier.name)
        bridge = None if row is None else rows.bridge_from(row)
        return Bridged(found.catalog, found.namespace, identifier, found.entry, bridge)

    async def configure(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        config: BridgeConfig,
        secrets: RemoteSecrets = NO_SECRETS,
    ) -> Bridged:
        """Give a name a bridge, in place of the one it has. Raises InvalidInput, NoSuchNamespace, AccessDenied.

        What was learned of the other side is kept if the same table is followed.
        """
        f = self._f
        await self.admit_config(caller, catalog_name, identifier, config, secrets)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Bridged:
            before = await self.of(tx, await self._entries.find(tx, catalog_name, identifier), identifier)
            made = self.new(before, config, secrets, now_ms)
            await self.put(tx, made)
            await append_catalog_event(
                f.outbox,
                tx,
                "TableBridgeConfigured",
                caller,
                now_ms,
                catalog_name,
                identifier.namespace,
                facts={"table": identifier.name, "catalog": config.catalog, "external": external_name(config)},
            )
            return Bridged(before.catalog, before.namespace, identifier, before.entry, made)

        return await f.meta.transact(work)

    async def admit_config(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        config: BridgeConfig,
        secrets: RemoteSecrets,
    ) -> ResolvedName:
        """The name, if the caller may give it this bridge. Raises InvalidInput, AccessDenied."""
        check_config(config, secrets)
        found = await self._admitted(caller, catalog_name, identifier, Action.CREATE_TABLE)
        if config.catalog is BridgedCatalogKind.REST:
            # It makes the server speak to whatever host is named, from where the server stands.
            await self._admitted(caller, catalog_name, identifier, Action.CONFIGURE_BRIDGE)
            check_hosts(self._hosts, config.address, config.auth)
        if config.catalog is BridgedCatalogKind.FOLDER:
            await self._admit_folder(caller, config.folder)
        return found

    async def admit_move(self, caller: Caller, catalog_name: str, identifier: Identifier) -> None:
        """Return if the caller may have the table follow the other side. Raises NoSuchNamespace, AccessDenied."""
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        action = Action.CREATE_TABLE if lookup.live is None else Action.UPDATE_METADATA_LOCATION
        await self._admitted(caller, catalog_name, identifier, action, reported_action=CREATE_OR_MOVE)

    async def remove(self, caller: Caller, catalog_name: str, identifier: Identifier) -> None:
        """Take the bridge off a name. The table stays as it is. Raises NotFound."""
        f = self._f
        await self._admitted(caller, catalog_name, identifier, Action.CREATE_TABLE)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            found = await self._entries.find(tx, catalog_name, identifier)
            if not await tx.run(rows.DELETE, found.namespace.id, identifier.name):
                raise NotFound(f"no bridge is configured: {identifier}")
            await append_catalog_event(
                f.outbox,
                tx,
                "TableBridgeRemoved",
                caller,
                now_ms,
                catalog_name,
                identifier.namespace,
                facts={"table": identifier.name},
            )

        await f.meta.transact(work)

    # -- rows -----------------------------------------------------------------------------------------------------

    def new(self, before: Bridged, config: BridgeConfig, secrets: RemoteSecrets, now_ms: int) -> Bridge:
        """A bridge in place of the one that was there."""
        old = before.bridge
        revision = uuid4().hex
        follows_same = old is not None and old.config.follows == config.follows
        return Bridge(
            namespace_id=before.namespace.id,
            name=before.identifier.name,
            revision=revision,
            config=config,
            sealed=self._vault.seal(secrets.packed(), _context(revision)) if secrets else None,
            state=old.state if old is not None and follows_same else BridgeState(),
            due_ms=now_ms if config.sync_mode is SyncMode.POLL else None,
            created_ms=now_ms if old is None else old.created_ms,
            updated_ms=now_ms,
        )

    async def put(self, tx: Transaction, bridge: Bridge) -> None:
        """The step of a transaction that stores a bridge."""
        await tx.run(
            rows.PUT,
            bridge.namespace_id,
            bridge.name,
            bridge.revision,
            encode_config(bridge.config),
            bridge.sealed,
            encode_state(bridge.state),
            bridge.due_ms,
            bridge.created_ms,
            bridge.updated_ms,
        )

    def secrets_of(self, bridge: Bridge) -> RemoteSecrets:
        """What opens the other side. Raises Corrupted."""
        if bridge.sealed is None:
            return NO_SECRETS
        return RemoteSecrets.unpacked(self._vault.open(bridge.sealed, _context(bridge.revision)))

    # -- who may --------------------------------------------------------------------------------------------------

    async def _admitted(
        self, caller: Caller, catalog_name: str, identifier: Identifier, action: Action, *, reported_action: str = ""
    ) -> ResolvedName:
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        await self._authorizer.check(
            caller,
            lookup.catalog,
            action,
            namespace=identifier.namespace,
            name=identifier.name,
            entry=lookup.live,
            reported_action=reported_action,
        )
        return lookup.found

    async def _admit_folder(self, caller: Caller, folder: str) -> None:
        """Return if the caller may read the folder: from now on it is read for him."""
        f, address = self._f, parse_location(folder)
        bucket = await f.bucket(f.meta, address.bucket)
        await f.authorize(caller, bucket, "s3:ListBucket", extra={"s3:prefix": address.directory})
        await f.authorize(caller, bucket, "s3:GetObject", address.directory)
        if bucket.holds_tables:
            await f.table_buckets.authorize(caller, bucket, "s3:GetObject", address.directory)


def _context(revision: str) -> bytes:
    """What the secrets of a bridge are sealed to: no two configurations have one revision, and names change."""
    return revision.encode()
