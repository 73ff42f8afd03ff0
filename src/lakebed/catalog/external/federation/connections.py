"""Connections of catalogs to the catalogs behind them: configured, shown without their secrets, tried, taken off."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.catalogs.properties import check_properties
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.events import append_catalog_event
from lakebed.catalog.model import Catalog
from lakebed.core.access import ResourceRules
from lakebed.core.errors import NotFound, StateConflict
from lakebed.governance.credentials.vault import Vault
from lakebed.governance.rbac import SERVICE, GrantKind, action_privileges
from lakebed.governance.rbac.catalogs import find_catalog
from lakebed.meta.seam import Reader, Transaction
from lakebed.objects.context import ObjectContext
from lakebed.objects.model import Caller

from ..remote.checking import check_address, check_auth
from ..remote.client import Manners, RemoteCatalog
from ..remote.model import NO_SECRETS, RemoteSecrets
from . import rows
from .facades import forget_all
from .model import Connection, ConnectionConfig, encode_config
from .remotes import Remotes

PURPOSE = "catalog connection secrets"
"""What the vault seals for."""


@dataclass(frozen=True, slots=True)
class Backed:
    """A catalog that is backed by another, as one request finds it."""

    catalog: Catalog
    connection: Connection
    remote: RemoteCatalog

    @property
    def catalog_id(self) -> int:
        """Its id."""
        return self.connection.catalog

    @property
    def name(self) -> str:
        """Its name."""
        return self.connection.name


class Connections:
    """The use cases of connections."""

    def __init__(
        self,
        object_context: ObjectContext,
        authorizer: CatalogAuthorizer,
        catalogs: CatalogService,
        vault: Vault,
        remotes: Remotes,
    ) -> None:
        self._f = object_context
        self._authorizer = authorizer
        self._catalogs = catalogs
        self._vault = vault
        self._remotes = remotes

    async def backed(self, name: str) -> Backed | None:
        """The catalog of that name, if it is backed by another; whoever asks. Two point reads, one if it is not."""
        row = await self._f.meta.row(rows.FIND, name)
        if row is None:
            return None
        connection = rows.connection_from(row)
        catalog = await self._catalogs.find_any(self._f.meta, name)
        return Backed(catalog, connection, self._remote(connection))

    async def get(self, caller: Caller, name: str) -> Connection:
        """The connection of a catalog. Raises NoSuchCatalog, NotFound."""
        await self._admit(caller, name)
        return await self._find(self._f.meta, name)

    async def list(self, caller: Caller) -> list[Connection]:
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
    ) -> Connection:
        """Connect a catalog, in place of the connection it has.

        Raises NoSuchCatalog; InvalidInput for what makes no sense, and for hosts that the settings do not allow;
        StateConflict if the catalog has namespaces of its own.
        """
        f = self._f
        await self._admit(caller, name)
        self.check(config, secrets)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> Connection:
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
    ) -> Connection:
        """The step of a transaction that connects a catalog. The configuration was checked before."""
        catalog = (await find_catalog(tx, name)).id
        row = await tx.row(rows.FIND, name)
        if row is None and await tx.row(rows.HAS_NAMESPACES, catalog) is not None:
            raise StateConflict(f"the catalog has namespaces of its own, and could not be reached any more: {name}")
        created_ms = now_ms if row is None else rows.connection_from(row).created_ms
        revision = uuid4().hex
        sealed = self._vault.seal(secrets.packed(), revision.encode()) if secrets else None
        made = Connection(catalog, name, revision, config, sealed, created_ms, now_ms)
        await tx.run(rows.PUT, catalog, name, revision, encode_config(config), sealed, created_ms, now_ms)
        await self._tell(tx, "ConnectionConfigured", caller, made, now_ms)
        return made

    async def remove(self, caller: Caller, name: str) -> None:
        """Take the connection off a catalog, which is empty then. Raises NoSuchCatalog, NotFound."""
        f = self._f
        await self._admit(caller, name)
        now_ms = f.clock.now_ms()

        async def work(tx: Transaction) -> None:
            await self.disconnect(tx, caller, await self._find(tx, name), now_ms)

        await f.meta.transact(work)

    async def disconnect(self, tx: Transaction, caller: Caller, connection: Connection, now_ms: int) -> None:
        """The step of a transaction that takes a connection off, and all that was known by it."""
        await forget_all(tx, connection.catalog)
        await tx.run(rows.DELETE, connection.catalog)
        await self._tell(tx, "ConnectionRemoved", caller, connection, now_ms)

    async def release(self, tx: Transaction, caller: Caller, name: str, now_ms: int) -> None:
        """The step of a transaction that removes a catalog: its connection goes first, if it has one."""
        row = await tx.row(rows.FIND, name)
        if row is not None:
            await self.disconnect(tx, caller, rows.connection_from(row), now_ms)

    async def of_all(self) -> dict[str, Connection]:
        """All connections by the names of their catalogs, for who may see those."""
        return {one.name: one for one in map(rows.connection_from, await self._f.meta.rows(rows.ALL))}

    def check(self, config: ConnectionConfig, secrets: RemoteSecrets) -> None:
        """Return if a catalog can be connected so. Raises InvalidInput."""
        check_connection(config, secrets)
        self._remotes.check_hosts(config)

    async def try_out(self, caller: Caller, name: str) -> Manners:
        """How the catalog behind says that it wants to be spoken to. Raises as it refuses."""
        await self._admit(caller, name)
        return await self._remote(await self._find(self._f.meta, name)).manners()

    def _remote(self, connection: Connection) -> RemoteCatalog:
        known = self._remotes.known(connection)
        if known is not None:
            return known
        secrets = NO_SECRETS
        if connection.sealed is not None:
            secrets = RemoteSecrets.unpacked(self._vault.open(connection.sealed, connection.revision.encode()))
        return self._remotes.open(connection, secrets)

    async def _find(self, reader: Reader, name: str) -> Connection:
        row = await reader.row(rows.FIND, name)
        if row is None:
            raise NotFound(f"the catalog has no connection: {name}")
        return rows.connection_from(row)

    async def _admit(self, caller: Caller, name: str) -> None:
        """Return if the caller may. Who may make catalogs may say what is behind them: hosts are the settings' word."""
        catalog = await self._catalogs.find_any(self._f.meta, name)
        await self._authorizer.check(caller, catalog, Action.CONFIGURE_CONNECTION, securable=SERVICE)

    async def _tell(self, tx: Transaction, kind: str, caller: Caller, connection: Connection, now_ms: int) -> None:
        facts = {"uri": connection.config.uri, "authentication": connection.config.auth.kind}
        await append_catalog_event(self._f.outbox, tx, kind, caller, now_ms, connection.name, facts=facts)


def check_connection(config: ConnectionConfig, secrets: RemoteSecrets) -> None:
    """Return if a catalog can be connected so. Raises InvalidInput that names the field."""
    check_address(config.address, config.auth)
    check_auth(config.auth, secrets)
    check_properties(config.properties)
