"""Configures, checks and removes the connections of federated catalogs, and finds federated catalogs by name."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.catalogs.properties import check_properties
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.rows import CATALOG_HAS_NAMESPACES
from lakebed.core.access import ResourceRules
from lakebed.core.errors import NotFound, StateConflict
from lakebed.governance.credentials.vault import Vault
from lakebed.governance.rbac import SERVICE, GrantKind, action_privileges
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.governance.validated_cache import ValidatedCache
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.client import RemoteCatalog, RemoteCatalogs, RemoteConfig
from ..remote.model import NO_SECRETS, RemoteSecrets
from ..remote.validation import check_address, check_auth
from . import rows
from .model import CatalogConnection, ConnectionConfig, FederatedCatalog, encode_config
from .synthetic_entities import drop_synthetic_entities

VAULT_PURPOSE: Final = "catalog connection secrets"

_CACHED_CLIENTS: Final = 256


class CatalogConnections:
    """The use cases of connections."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        vault: Vault,
        remotes: RemoteCatalogs,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._vault = vault
        self._remotes = remotes
        self._clients: ValidatedCache[str, RemoteCatalog] = ValidatedCache(_CACHED_CLIENTS)
        """By catalog, each from a revision of its connection: a client keeps tokens and the remote configuration."""
        self._may_exist: bool | None = None if remotes.hosts.is_empty else True

    async def find(self, name: str) -> FederatedCatalog | None:
        """The federated catalog of that name; None if it is internal or missing. Without authorization.

        Reads the store each time, so that all processes route alike as soon as a connection is committed: one point
        read for an internal catalog, two for a federated one. Reads nothing on a server that cannot have connections:
        `federation.hosts` is empty, and no connection existed at the first request.
        """
        if self._may_exist is None:
            self._may_exist = await self._f.meta.row(rows.ANY) is not None
        if not self._may_exist:
            return None
        row = await self._f.meta.row(rows.FIND, name)
        if row is None:
            return None
        connection = rows.connection_from(row)
        catalog = await self._catalogs.find_any(self._f.meta, name)
        return FederatedCatalog(catalog, connection, self._client(connection))

    async def get(self, caller: Caller, name: str) -> CatalogConnection:
        """The connection of a catalog. Raises NoSuchCatalog, NotFound."""
        await self._authorize(caller, name)
        return await self._find(self._f.meta, name)

    async def list(self, caller: Caller) -> list[CatalogConnection]:
        """All connections, by the names of their catalogs."""
        await self._f.authorize_resource(
            caller,
            ResourceRules(owner=caller.principal.account),
            Action.CONFIGURE_CONNECTION,
            "*",
            securable=SERVICE,
            privileges=action_privileges(Action.CONFIGURE_CONNECTION, GrantKind.CATALOG),
        )
        return [rows.connection_from(row) for row in await self._f.meta.rows(rows.ALL)]

    async def put(
        self, caller: Caller, name: str, config: ConnectionConfig, secrets: RemoteSecrets = NO_SECRETS
    ) -> CatalogConnection:
        """Connect a catalog, or replace its connection.

        Raises NoSuchCatalog; InvalidInput for an invalid configuration, and for hosts that the settings do not allow;
        StateConflict if the catalog has namespaces.
        """
        f = self._f
        await self._authorize(caller, name)
        self.check(config, secrets)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> CatalogConnection:
            return await self.connect(tx, caller, name, config, secrets, now_ms)

        return await f.meta.transact(work)

    async def connect(
        self,
        tx: Transaction,
        caller: Caller,
        name: str,
        config: ConnectionConfig,
        secrets: RemoteSecrets,
        now_ms: int,
    ) -> CatalogConnection:
        """The step of a transaction that connects a catalog. `check` the configuration before."""
        catalog = (await find_catalog(tx, name)).id
        row = await tx.row(rows.FIND, name)
        if row is None and await tx.row(CATALOG_HAS_NAMESPACES, catalog) is not None:
            raise StateConflict(f"only an empty catalog can be connected: drop its namespaces first. catalog={name}")
        created_ms = now_ms if row is None else rows.connection_from(row).created_ms
        revision = uuid4().hex
        sealed = secrets.sealed(self._vault, revision)
        connection = CatalogConnection(catalog, name, revision, config, sealed, created_ms, now_ms)
        await tx.run(rows.PUT, catalog, name, revision, encode_config(config), sealed, created_ms, now_ms)
        await self._emit(tx, "ConnectionConfigured", caller, connection, now_ms)
        return connection

    async def remove(self, caller: Caller, name: str) -> None:
        """Remove the connection of a catalog, which is then internal and empty. Raises NoSuchCatalog, NotFound."""
        f = self._f
        await self._authorize(caller, name)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self._disconnect(tx, caller, await self._find(tx, name), now_ms)

        await f.meta.transact(work)

    async def release(self, tx: Transaction, caller: Caller, name: str, now_ms: int) -> None:
        """The step of a transaction that drops a catalog: removes its connection first, if it has one."""
        row = await tx.row(rows.FIND, name)
        if row is not None:
            await self._disconnect(tx, caller, rows.connection_from(row), now_ms)

    async def _disconnect(self, tx: Transaction, caller: Caller, connection: CatalogConnection, now_ms: int) -> None:
        await drop_synthetic_entities(tx, connection.catalog)
        await tx.run(rows.DELETE, connection.catalog)
        await self._emit(tx, "ConnectionRemoved", caller, connection, now_ms)

    async def of_all(self) -> dict[str, CatalogConnection]:
        """All connections by the names of their catalogs. Without authorization."""
        return {one.name: one for one in map(rows.connection_from, await self._f.meta.rows(rows.ALL))}

    def check(self, config: ConnectionConfig, secrets: RemoteSecrets) -> None:
        """Return if the configuration is valid and its hosts are allowed. Raises InvalidInput that names the field."""
        check_address(config.address, config.auth)
        check_auth(config.auth, secrets)
        check_properties(config.properties)
        self._remotes.check_hosts(config.address, config.auth, uri_field="tokenUri")

    async def try_out(self, caller: Caller, name: str) -> RemoteConfig:
        """The configuration of the external catalog, to check the connection. Raises the external catalog's errors."""
        await self._authorize(caller, name)
        return await self._client(await self._find(self._f.meta, name)).config()

    def _client(self, connection: CatalogConnection) -> RemoteCatalog:
        """The client of a connection. Raises ExternalCatalogError if the settings do not allow its host any more."""
        known = self._clients.get(connection.name, connection.revision)
        if known is not None:
            return known
        config = connection.config
        secrets = RemoteSecrets.opened(self._vault, connection.sealed, connection.revision)
        client = self._remotes.open(config.address, config.auth, secrets)
        return self._clients.put(connection.name, connection.revision, client)

    async def _find(self, reader: Reader, name: str) -> CatalogConnection:
        row = await reader.row(rows.FIND, name)
        if row is None:
            raise NotFound(f"the catalog has no connection. catalog={name}")
        return rows.connection_from(row)

    async def _authorize(self, caller: Caller, name: str) -> None:
        """Return if the caller may configure connections: permission to create catalogs is enough. Raises AccessDenied.

        The hosts that a connection may lead to are limited by the settings, not by permissions.
        """
        catalog = await self._catalogs.find_any(self._f.meta, name)
        await self._authorizer.check(caller, catalog, Action.CONFIGURE_CONNECTION, securable=SERVICE)

    async def _emit(
        self, tx: Transaction, kind: str, caller: Caller, connection: CatalogConnection, now_ms: int
    ) -> None:
        facts = {"uri": connection.config.uri, "authentication": connection.config.auth.kind}
        await append_catalog_event(self._f.outbox, tx, kind, caller, now_ms, connection.name, facts=facts)
