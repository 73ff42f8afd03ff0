"""Configures, returns and removes bridges."""

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
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.client import RemoteCatalogs
from ..remote.model import NO_SECRETS, RemoteSecrets
from . import rows
from .model import (
    Bridge,
    BridgeConfig,
    BridgedTable,
    BridgeState,
    ExternalCatalogKind,
    SyncMode,
    encode_config,
    encode_state,
    external_name,
)
from .validation import check_config

VAULT_PURPOSE = "external catalog secrets"


class Bridges:
    """The use cases of bridges except syncs."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        entries: Entries,
        vault: Vault,
        remotes: RemoteCatalogs,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._entries = entries
        self._vault = vault
        self._remotes = remotes

    async def get(self, caller: Caller, catalog_name: str, identifier: Identifier) -> BridgedTable:
        """The bridge of a table name, if it has one; the table need not exist. Raises NoSuchNamespace."""
        found = await self._authorized(caller, catalog_name, identifier, Action.GET_METADATA_LOCATION)
        return await self.of(self._f.meta, found, identifier)

    async def of(self, reader: Reader, found: ResolvedName, identifier: Identifier) -> BridgedTable:
        """The bridge of a resolved name."""
        row = await reader.row(rows.FIND, found.namespace.id, identifier.name)
        bridge = None if row is None else rows.bridge_from(row)
        return BridgedTable(found.catalog, found.namespace, identifier, found.entry, bridge)

    async def configure(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        config: BridgeConfig,
        secrets: RemoteSecrets = NO_SECRETS,
    ) -> BridgedTable:
        """Set the bridge of a name, or replace it. Raises InvalidInput, NoSuchNamespace, AccessDenied.

        The state is kept if the external table stays the same.
        """
        f = self._f
        await self.authorize_config(caller, catalog_name, identifier, config, secrets)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> BridgedTable:
            before = await self.of(tx, await self._entries.find(tx, catalog_name, identifier), identifier)
            bridge = self.new(before, config, secrets, now_ms)
            await self.put(tx, bridge)
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
            return BridgedTable(before.catalog, before.namespace, identifier, before.entry, bridge)

        return await f.meta.transact(work)

    async def authorize_config(
        self,
        caller: Caller,
        catalog_name: str,
        identifier: Identifier,
        config: BridgeConfig,
        secrets: RemoteSecrets,
    ) -> ResolvedName:
        """The resolved name, if the caller may set this bridge. Raises InvalidInput, AccessDenied."""
        check_config(config, secrets)
        found = await self._authorized(caller, catalog_name, identifier, Action.CREATE_TABLE)
        if config.catalog is ExternalCatalogKind.REST:
            # The server will send requests to a host of the caller's choice, from its own network.
            await self._authorized(caller, catalog_name, identifier, Action.CONFIGURE_BRIDGE)
            self._remotes.check_hosts(config.address, config.auth)
        if config.catalog is ExternalCatalogKind.FOLDER:
            await self._authorize_folder(caller, config.folder)
        return found

    async def authorize_sync(self, caller: Caller, catalog_name: str, identifier: Identifier) -> None:
        """Return if the caller may sync the table. Raises NoSuchNamespace, AccessDenied."""
        lookup = await self._entries.look_up(self._f.meta, catalog_name, identifier)
        action = Action.CREATE_TABLE if lookup.live is None else Action.UPDATE_METADATA_LOCATION
        await self._authorized(caller, catalog_name, identifier, action, reported_action=CREATE_OR_MOVE)

    async def remove(self, caller: Caller, catalog_name: str, identifier: Identifier) -> None:
        """Remove the bridge of a name. The table stays as it is. Raises NotFound."""
        f = self._f
        await self._authorized(caller, catalog_name, identifier, Action.CREATE_TABLE)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            found = await self._entries.find(tx, catalog_name, identifier)
            if not await tx.run(rows.DELETE, found.namespace.id, identifier.name):
                raise NotFound(f"the table has no bridge. table={identifier}")
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

    def new(self, before: BridgedTable, config: BridgeConfig, secrets: RemoteSecrets, now_ms: int) -> Bridge:
        """A bridge that replaces the present one, if any."""
        old = before.bridge
        revision = uuid4().hex
        follows_same = old is not None and old.config.follows == config.follows
        return Bridge(
            namespace_id=before.namespace.id,
            name=before.identifier.name,
            revision=revision,
            config=config,
            sealed=secrets.sealed(self._vault, revision),
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
        """The credentials for the external catalog. Raises Corrupted."""
        return RemoteSecrets.opened(self._vault, bridge.sealed, bridge.revision)

    # -- authorization --------------------------------------------------------------------------------------------

    async def _authorized(
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

    async def _authorize_folder(self, caller: Caller, folder: str) -> None:
        """Return if the caller may read the folder: polls will read it on the caller's behalf. Raises AccessDenied."""
        f, address = self._f, parse_location(folder)
        bucket = await f.bucket(f.meta, address.bucket)
        await f.authorize(caller, bucket, "s3:ListBucket", extra={"s3:prefix": address.directory})
        await f.authorize(caller, bucket, "s3:GetObject", address.directory)
        if bucket.holds_tables:
            await f.table_buckets.authorize(caller, bucket, "s3:GetObject", address.directory)
