"""The catalog's services on an object store with a fixed clock."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.catalogs.base_locations import BASE_LOCATION
from lakebed.catalog.catalogs.management import CatalogManagement
from lakebed.catalog.catalogs.service import UNDROP_WINDOW, CatalogService
from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.catalog.commits.publishing import Publisher
from lakebed.catalog.commits.service import NO_OPTIONS, CommitOptions, Commits, TableChange, read_change
from lakebed.catalog.entries import Entries, LoadedEntry
from lakebed.catalog.events import CatalogEvent, decode_event
from lakebed.catalog.idempotency import IdempotencyKeys, Mutation, RequestKey
from lakebed.catalog.identifiers import Identifier, check_identifier
from lakebed.catalog.locations.claims import LocationClaims
from lakebed.catalog.model import Catalog, CatalogKind, Entry, EntryKind, Namespace
from lakebed.catalog.namespaces import Namespaces
from lakebed.catalog.restrictions.copies import Copies
from lakebed.catalog.tables.creation import Creation
from lakebed.catalog.tables.drops import Dropping
from lakebed.catalog.tables.metrics_reports import MetricsReports
from lakebed.catalog.tables.purging import PurgeWorker
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.catalog.tables.renaming import Renaming
from lakebed.catalog.tables.served_files import ServedFiles
from lakebed.catalog.tables.views import Views
from lakebed.catalog.validation.commit import CommitValidator
from lakebed.core.access import ResourceRules, Securable
from lakebed.governance.rbac.administrator import Administrator
from lakebed.iceberg.commits import CreateTable, parse_create_table, parse_create_view
from lakebed.iceberg.metadata import TableMetadata, parse_table
from lakebed.meta.seam import MetaStore, Row, Transaction, Value, Work
from lakebed.meta.tasks import TaskQueue
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.model import Caller
from lakebed.objects.rows import BUCKET_BY_NAME
from lakebed.objects.writing import ObjectWriter
from tests.governance.documents import policy, statement
from tests.objects.stores import ROOT, ObjectStore, user

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "payload", "required": False, "type": "string"},
    ],
}

VIEW_VERSION: dict[str, Any] = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}

UNPRIVILEGED = user("unprivileged")
"""A user without permissions."""

_KEPT = {
    "warehouses": "id",
    "warehouse_locations": "bucket, prefix",
    "catalog_roles": "id",
    "namespaces": "id",
    "entries": "id",
    "entry_locations": "bucket, prefix",
    "promised_locations": "bucket, prefix",
    "retained_locations": "bucket, prefix",
    "entry_commits": "entry, generation",
    "idempotency_keys": "id",
    "table_imports": "entry",
    "bridges": "namespace, name",
    "table_reports": "seq",
    "policy_types": "warehouse, name",
    "policies": "id",
    "policy_attachments": "target, policy",
    "policy_versions": "policy, version",
    "generic_tables": "entry",
    "labelled": "subject",
    "tags": "subject, key",
    "tasks": "id",
    "buckets": "id",
    "objects": "bucket, key",
    "versions": "bucket, key, rank",
    "blobs": "id",
    "garbage": "id",
    "outbox": "seq",
}
"""The tables that the catalog writes, with the order to read them in."""

_NOT_OF_A_BUCKET = ("entry_locations", "idempotency_keys", "tasks")
"""Tables whose rows are not deleted with their bucket."""


@dataclass(frozen=True, slots=True)
class CatalogHarness:
    """The use cases, their dependencies, and helpers that call them as root."""

    store: ObjectStore
    catalogs: CatalogService
    namespaces: Namespaces
    entries: Entries
    creation: Creation
    commits: Commits
    registration: TableRegistration
    views: Views
    dropping: Dropping
    renaming: Renaming
    reports: MetricsReports
    keys: IdempotencyKeys
    tasks: TaskQueue
    purges: PurgeWorker
    files: ServedFiles
    authorizer: CatalogAuthorizer
    cache: MetadataCache
    publisher: Publisher
    claims: LocationClaims

    async def create_table_bucket(self, name: str = "lake") -> None:
        """Create a table bucket."""
        await self.store.bucket(name)
        await self.catalogs.enable(ROOT, name)

    @property
    def management(self) -> CatalogManagement:
        """Catalogs of the management API."""
        return CatalogManagement(self.store.object_context, self.authorizer, self.copies.discard_orphans)

    @property
    def copies(self) -> Copies:
        """Restricted copies, wired like `server.catalog`."""
        return Copies(
            self.store.object_context,
            self.namespaces,
            self.entries,
            self.files,
            self.publisher,
            self.cache,
            self.dropping,
            self.tasks,
            self.claims,
        )

    def administrator(self, caller: Caller = ROOT) -> Administrator:
        """The administrator of catalogs."""
        rules = ResourceRules(owner=ROOT.principal.account)

        async def ask(action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
            await self.store.object_context.authorize_resource(
                caller, rules, action, resource, securable=securable, privileges=privileges
            )

        return Administrator(caller.principal, ask)

    async def make(
        self,
        name: str,
        base: str,
        *allowed: str,
        kind: CatalogKind = CatalogKind.INTERNAL,
        caller: Caller = ROOT,
        **properties: str,
    ) -> Catalog:
        """Create a catalog; creates its bucket if necessary."""
        bucket = base.removeprefix("s3://").partition("/")[0]
        if await self.store.meta.row(BUCKET_BY_NAME, bucket) is None:
            await self.store.bucket(bucket)
        made = {BASE_LOCATION: base, **properties}
        await self.management.create(
            self.administrator(caller), caller, name, kind=kind, properties=made, allowed=allowed
        )
        return await self.catalogs.find(self.store.meta, name)

    async def make_external(self, name: str = "lake") -> None:
        """Turn a catalog into an external one, directly in the store."""

        async def work(tx: Transaction) -> None:
            await tx.run("UPDATE warehouses SET kind = 'EXTERNAL' WHERE name = ?", name)

        await self.store.meta.transact(work)

    async def namespace(self, *levels: str, caller: Caller = ROOT) -> Namespace:
        """Create a namespace of `lake`."""
        return await self.namespaces.create(Mutation(caller), "lake", levels, {})

    async def create(
        self,
        name: str = "t",
        *,
        namespace: str = "ns",
        caller: Caller = ROOT,
        key: RequestKey | None = None,
        **request: Any,
    ) -> LoadedEntry:
        """Create a table of two columns in `lake`."""
        return await self.creation.create(Mutation(caller, key), "lake", (namespace,), a_table(name, **request))

    async def create_view(
        self, name: str = "v", *, namespace: str = "ns", caller: Caller = ROOT, **request: Any
    ) -> LoadedEntry:
        """Create a view in `lake`."""
        document = {"name": name, "schema": SCHEMA, "view-version": VIEW_VERSION}
        view_request = parse_create_view(_document(document, request))
        return await self.views.create(Mutation(caller), "lake", (namespace,), view_request)

    async def commit(
        self,
        identifier: Identifier,
        *updates: dict[str, Any],
        requirements: Sequence[dict[str, Any]] = (),
        caller: Caller = ROOT,
        key: RequestKey | None = None,
        options: CommitOptions = NO_OPTIONS,
    ) -> LoadedEntry:
        """Commit updates to a table of `lake`."""
        change = a_change(identifier, *updates, requirements=requirements)
        return await self.commits.commit(Mutation(caller, key), "lake", change, options)

    async def commit_all(self, *changes: TableChange, caller: Caller = ROOT, key: RequestKey | None = None) -> None:
        """Commit changes of tables of `lake` in one transaction."""
        await self.commits.commit_all(Mutation(caller, key), "lake", changes)

    async def drop(
        self,
        table: str = "t",
        *,
        kind: EntryKind = EntryKind.TABLE,
        purge: bool = False,
        caller: Caller = ROOT,
        key: RequestKey | None = None,
    ) -> Entry:
        """Drop a table or view of `ns`."""
        return await self.dropping.drop(Mutation(caller, key), "lake", name(table), kind, purge=purge)

    async def set_undrop_window(self, seconds: int) -> None:
        """Give `lake` an undrop window."""
        await self.catalogs.set_properties(ROOT, "lake", updates={UNDROP_WINDOW: str(seconds)}, removals=[])

    async def entry(self, identifier: Identifier) -> Entry:
        """The live table or view with a name."""
        found = (await self.entries.find(self.store.meta, "lake", identifier)).live
        assert found is not None
        return found

    async def metadata(self, identifier: Identifier) -> TableMetadata:
        """The stored document of a table's current metadata file."""
        return parse_table(await self.files.read((await self.entry(identifier)).metadata_at))

    async def keys_in(self, bucket: str = "lake") -> list[str]:
        """The keys of a bucket's objects."""
        statement_text = "SELECT o.key FROM objects o JOIN buckets b ON b.id = o.bucket WHERE b.name = ? ORDER BY o.key"
        return [row[0] for row in await self.store.meta.rows(statement_text, bucket)]

    async def claimed(self) -> dict[str, list[str]]:
        """The directories of each entry, by its id."""
        claimed: dict[str, list[str]] = {}
        for entry, prefix in await self.store.meta.rows("SELECT entry, prefix FROM entry_locations ORDER BY prefix"):
            claimed.setdefault(entry, []).append(prefix)
        return claimed

    async def events(self, after: int = 0) -> list[tuple[str, CatalogEvent]]:
        """The events of the catalog."""
        prefixes = ("Table", "View", "Namespace", "CatalogCreated", "CatalogConfigured", "CatalogDeleted")
        return [
            (entry.event.kind, decode_event(entry.event.payload))
            for entry in await self.store.events(after)
            if entry.event.kind.startswith(prefixes)
        ]

    async def last_event(self) -> int:
        """The number of the newest event."""
        return await self.store.object_context.outbox.last_seq(self.store.meta)

    async def everything(self) -> dict[str, object]:
        """All rows that the catalog writes, and all blobs."""
        kept: dict[str, object] = {
            table: await self.store.meta.rows(f"SELECT * FROM {table} ORDER BY {order}")
            for table, order in _KEPT.items()
        }
        return kept | {"stored": await self.store.stored_blobs()}

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Assert that the block leaves no row, object, blob or event."""
        before = await self.everything()
        yield
        assert await self.everything() == before


def a_table(name: str = "t", **request: Any) -> CreateTable:
    """A request to create a table of two columns."""
    return parse_create_table(_document({"name": name, "schema": SCHEMA}, request))


def a_change(
    identifier: Identifier, *updates: dict[str, Any], requirements: Sequence[dict[str, Any]] = ()
) -> TableChange:
    """The body of a commit to a table."""
    return read_change(identifier, msgspec.json.encode(list(requirements)), msgspec.json.encode(list(updates)))


def set_properties(**properties: str) -> dict[str, Any]:
    """An update that sets properties; `_` in their names becomes `.`."""
    return {"action": "set-properties", "updates": {key.replace("_", "."): one for key, one in properties.items()}}


def set_property(key: str, value: str) -> dict[str, Any]:
    """An update that sets one property."""
    return {"action": "set-properties", "updates": {key: value}}


def staged(document: bytes) -> list[dict[str, Any]]:
    """The updates of a staged create, as clients send them with `assert-create`."""
    metadata = msgspec.json.decode(document)
    return [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        {"action": "set-properties", "updates": metadata["properties"]},
    ]


ASSERT_CREATE: dict[str, Any] = {"type": "assert-create"}


def name(table: str = "t", *levels: str) -> Identifier:
    """A table name, in `ns` by default."""
    return check_identifier(levels or ("ns",), table)


def user_with(*actions: str, resource: object = "*", condition: object = None, principal: str = "alice") -> Caller:
    """A user with exactly these permissions."""
    return user(principal, policy(statement(action=list(actions), resource=resource, condition=condition)))


def _document(document: dict[str, Any], request: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document | {key.replace("_", "-"): one for key, one in request.items()})


class FaultyStore:
    """A metadata store whose next transaction can be preceded, lost or failed."""

    def __init__(self, inner: MetaStore) -> None:
        self._inner = inner
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Runs just before the next `transact` begins."""
        self.lost: BaseException | None = None
        """The error of the next `transact`, although it commits."""
        self.refused: BaseException | None = None
        """The error of the next `transact`, which does not commit."""

    @property
    def dialect(self) -> str:
        return self._inner.dialect

    async def row(self, sql: str, *args: Value) -> Row | None:
        return await self._inner.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        return await self._inner.rows(sql, *args)

    async def transact(self, work: Work[Any]) -> Any:
        lost, self.lost = self.lost, None
        refused, self.refused = self.refused, None
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()

        async def failing(tx: Transaction) -> Any:
            await work(tx)
            assert refused is not None
            raise refused

        answer = await self._inner.transact(work if refused is None else failing)
        if lost is not None:
            raise lost
        return answer

    async def sync(self) -> None:
        await self._inner.sync()

    async def close(self) -> None:
        await self._inner.close()


def wire_catalog(store: ObjectStore, meta: MetaStore | None = None) -> CatalogHarness:
    """The services on an object store, wired like `server.catalog`; `meta` replaces the metadata store."""
    f = store.object_context if meta is None else replace(store.object_context, meta=meta)
    writer = store.writer if meta is None else ObjectWriter(f)
    deleter = store.deleter if meta is None else ObjectDeleter(f)
    tasks = TaskQueue(f.meta, store.clock, random.Random(1))
    authorizer = CatalogAuthorizer(f)
    cache = MetadataCache()
    files = ServedFiles(f, writer, store.reader, deleter)
    keys = IdempotencyKeys(f.meta, store.clock)
    catalogs = CatalogService(f, authorizer)
    entries = Entries(f.meta, files, authorizer, cache)
    claims = LocationClaims(f)
    publisher = Publisher(f, files, entries, keys, claims)
    validator = CommitValidator()
    return CatalogHarness(
        store=store,
        catalogs=catalogs,
        namespaces=Namespaces(f, authorizer, catalogs, keys),
        entries=entries,
        creation=Creation(f, entries, files, publisher, cache, claims),
        commits=Commits(f, entries, files, publisher, validator, cache, claims),
        registration=TableRegistration(f, authorizer, entries, files, publisher, validator, cache, claims),
        views=Views(f, entries, files, publisher, cache, claims),
        dropping=Dropping(f, authorizer, catalogs, entries, keys, tasks),
        renaming=Renaming(f, authorizer, entries, keys),
        reports=MetricsReports(f, entries),
        keys=keys,
        tasks=tasks,
        purges=PurgeWorker(f, files, deleter, tasks, "worker"),
        files=files,
        authorizer=authorizer,
        cache=cache,
        publisher=publisher,
        claims=claims,
    )


async def open_catalog(store: ObjectStore) -> CatalogHarness:
    """A catalog with a table bucket `lake` and a namespace `ns`, on an emptied object store."""

    async def empty(tx: Transaction) -> None:
        for table in _NOT_OF_A_BUCKET:
            await tx.run(f"DELETE FROM {table}")

    await store.meta.transact(empty)
    wired = wire_catalog(store)
    await wired.create_table_bucket()
    await wired.namespace("ns")
    return wired
