"""Catalogs with contents, as rows, for tests of roles and grants without the services that create them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from lakebed.core.access import Credential, Principal, Securable, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.errors import AccessDenied
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, MasterKeys, Principals
from lakebed.governance.rbac.administrator import Administrator
from lakebed.governance.rbac.catalog_grants import CatalogGrants
from lakebed.governance.rbac.catalog_roles import CatalogRoles, create_catalog_admin
from lakebed.governance.rbac.catalogs import Catalogs
from lakebed.governance.rbac.events import RoleEvent
from lakebed.governance.rbac.managed_principals import ManagedPrincipals
from lakebed.governance.rbac.principal_roles import PrincipalRoles
from lakebed.governance.tokens import ClientCredentialStore, SecretHasher
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from tests.governance.documents import OWNER

ROOT = root_of(OWNER, "ROOTKEY")
_EMPTY = b"\x80"
"""Encoded empty properties."""


class RecordingAuthorizer:
    """An authorizer that records requests, and allows all but those that `refuses` matches."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Securable, tuple[int, ...]]] = []
        self.refuses: Callable[[str], bool] = lambda action: False

    async def __call__(self, action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
        self.requests.append((action, resource, securable, privileges))
        if self.refuses(action):
            raise AccessDenied("no")


@dataclass
class World:
    """The services of roles and grants on a metadata store with catalogs."""

    store: MetaStore
    clock: ManualClock
    outbox: Outbox
    authorizer: RecordingAuthorizer = field(default_factory=RecordingAuthorizer)

    def __post_init__(self) -> None:
        store, outbox, clock = self.store, self.outbox, self.clock
        root = Credential("ROOTKEY", Secret("root-secret"), ROOT)
        self.by = Administrator(ROOT, self.authorizer)
        self.users = Principals(store, outbox, clock, ROOT)
        self.access_keys = AccessKeys(store, outbox, MasterKeys({"first": b"1" * 32}, "first"), clock, root)
        self.clients = ClientCredentialStore(
            store, outbox, SecretHasher(passes=1, memory_kib=8), clock, ROOT, root.access_key_id
        )
        self.principals = ManagedPrincipals(store, outbox, clock, root, self.clients)
        self.principal_roles = PrincipalRoles(store, outbox, clock)
        self.catalog_roles = CatalogRoles(store, outbox, clock)
        self.catalog_grants = CatalogGrants(store, outbox, clock)
        self.catalogs = Catalogs(store)

    def administrator(self, principal: Principal) -> Administrator:
        """Another caller."""
        return Administrator(principal, self.authorizer)

    async def catalog(self, name: str) -> int:
        """Create a catalog. Returns its id."""

        async def work(tx: Transaction) -> int:
            row = await tx.row(
                "INSERT INTO buckets (name, owner, region, created_ms, versioning, settings)"
                " VALUES (?, ?, 'us-east-1', 1, '', ?) RETURNING id",
                name,
                OWNER,
                _EMPTY,
            )
            assert row is not None
            # Unlike the bucket's id, so that code that confuses them finds nothing.
            catalog = int(row[0]) + 1000
            await tx.run(
                "INSERT INTO warehouses (id, name, bucket, base_prefix, kind, properties, version, created_ms,"
                " updated_ms) VALUES (?, ?, ?, '', 'INTERNAL', ?, 1, 5, 5)",
                catalog,
                name,
                row[0],
                _EMPTY,
            )
            await create_catalog_admin(tx, self.outbox, catalog, name, ROOT, self.clock.now_ms())
            return catalog

        return await self.store.transact(work)

    async def namespace(self, catalog: int, *levels: str) -> int:
        """Create a namespace. Returns its id."""
        path, parent = "\x1f".join(levels), "\x1f".join(levels[:-1])
        return await self._insert(
            "INSERT INTO namespaces (warehouse, path, parent, properties, created_ms) VALUES (?, ?, ?, ?, 1)"
            " RETURNING id",
            catalog,
            path,
            parent,
            _EMPTY,
        )

    async def entry(self, catalog: int, namespace: int, name: str, kind: str = "table") -> str:
        """Create a table or view. Returns its id."""
        entry = f"{kind}-{namespace}-{name}"

        async def work(tx: Transaction) -> None:
            await tx.run(
                "INSERT INTO entries (id, kind, warehouse, namespace, name, uuid, format_version, location,"
                " metadata_at, version_token, generation, created_ms, updated_ms, protected, purge)"
                " VALUES (?, ?, ?, ?, ?, ?, 2, '', '', '', 1, 1, 1, 0, 0)",
                entry,
                kind,
                catalog,
                namespace,
                name,
                entry,
            )

        await self.store.transact(work)
        return entry

    async def policy(self, catalog: int, namespace: int, name: str) -> int:
        """Create a policy. Returns its id."""
        return await self._insert(
            "INSERT INTO policies (warehouse, namespace, name, type, inheritable, content, version, created_ms,"
            " updated_ms) VALUES (?, ?, ?, 'system.data-compaction', 1, ?, 0, 1, 1) RETURNING id",
            catalog,
            namespace,
            name,
            b"{}",
        )

    async def run(self, statement: str, *values: int | str | bytes) -> None:
        """Run a statement directly on the store."""

        async def work(tx: Transaction) -> None:
            await tx.run(statement, *values)

        await self.store.transact(work)

    async def number(self) -> int:
        """The number of the latest change."""
        row = await self.store.row("SELECT number FROM role_changes")
        assert row is not None
        return int(row[0])

    async def events(self, *kinds: str) -> Sequence[tuple[str, RoleEvent]]:
        """Events of roles and grants, of these kinds or all."""
        entries = await self.outbox.read_after(self.store, 0, 10_000)
        emitted = [entry.event for entry in entries]
        return [
            (event.kind, msgspec.msgpack.decode(event.payload, type=RoleEvent))
            for event in emitted
            if event.kind.startswith(("PrincipalRole", "CatalogRole", "Grant")) and (not kinds or event.kind in kinds)
        ]

    async def _insert(self, statement: str, *values: int | str | bytes) -> int:
        async def work(tx: Transaction) -> int:
            row = await tx.row(statement, *values)
            assert row is not None
            return int(row[0])

        return await self.store.transact(work)
