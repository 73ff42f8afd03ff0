"""Stream services over a metadata store, without logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lakebed.core.access import Credential, Principal, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, MasterKeys, PolicyAuthorizer, Principals
from lakebed.governance.rbac.stream_grants import StreamGrants
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.objects.model import Caller
from lakebed.streams.admin.acls import Acls
from lakebed.streams.admin.altering import TableAlterations
from lakebed.streams.admin.auto_partitions import AutoPartitionTask
from lakebed.streams.admin.cluster import ClusterAdmin
from lakebed.streams.admin.producer_offsets import ProducerOffsets
from lakebed.streams.authorization import StreamAuthorizer
from lakebed.streams.cluster_configs import ClusterConfigs
from lakebed.streams.databases import StreamDatabases
from lakebed.streams.events import StreamEvent, decode_event
from lakebed.streams.lake.service import LakeTiering
from lakebed.streams.partitions import StreamPartitions
from lakebed.streams.table import StreamTable
from lakebed.streams.tables import StreamTables

ACCOUNT = "123456789012"
ROOT = root_of(ACCOUNT, "ROOTKEY")


def caller_of(principal: Principal) -> Caller:
    """A caller with this principal."""
    return Caller(principal, request_id="r-1", source_ip="192.0.2.7")


class StreamWorld:
    """The stream services, with users to call them."""

    def __init__(self, store: MetaStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.outbox = outbox = Outbox(store)
        root = Credential("ROOTKEY", Secret("root-secret"), ROOT)
        self.users = Principals(store, outbox, clock, ROOT)
        self.access_keys = AccessKeys(store, outbox, MasterKeys({"first": b"1" * 32}, "first"), clock, root)
        self.root = caller_of(ROOT)
        self.authorizer = authorizer = StreamAuthorizer(PolicyAuthorizer(clock), ACCOUNT)
        self.configs = ClusterConfigs(store, outbox, clock, authorizer, {"bind.listeners": "FLUSS://localhost:9123"})
        self.tables = StreamTables(store, outbox, clock, authorizer, self.configs)
        self.databases = StreamDatabases(store, outbox, clock, authorizer, self.tables)
        self.partitions = StreamPartitions(store, outbox, clock, authorizer, self.tables, self.configs)
        self.altering = TableAlterations(store, clock, authorizer, self.databases, self.tables)
        self.acls = Acls(authorizer, StreamGrants(store, outbox, clock))
        self.producers = ProducerOffsets(store, clock, authorizer, self.tables, self.configs)
        self.live = [0]
        self.servers = ClusterAdmin(store, outbox, clock, authorizer, self._live)
        self.auto_partitions = AutoPartitionTask(
            clock, self.tables, self.partitions, self.configs, self.root, lambda: True
        )
        self.leader_epoch = 3
        self.lake = self.new_lake_tiering()

    def new_lake_tiering(self) -> LakeTiering:
        """Lake tiering as in a process that has just started."""
        return LakeTiering(self.store, self.outbox, self.clock, self.authorizer, self.tables, lambda: self.leader_epoch)

    async def user(self, name: str) -> str:
        """Create a user without permissions. Returns the id of its access key."""
        await self.users.create_user(name)
        return (await self.access_keys.create(name)).key.id

    async def caller(self, key: str) -> Caller:
        """The owner of this access key, with its current permissions."""
        return caller_of((await self.access_keys.lookup(key)).principal)

    async def table(
        self, name: str = "orders", database: str = "fluss", *, key: Sequence[str] = (), **fields: Any
    ) -> StreamTable:
        """Create a table with columns `id` and `name`; `fields` are added to its document."""
        columns = [
            {"name": "id", "data_type": {"type": "INTEGER", "nullable": not key}, "id": 0},
            {"name": "name", "data_type": {"type": "STRING"}, "id": 1},
        ]
        schema: dict[str, Any] = {"version": 1, "columns": columns, "highest_field_id": 1}
        if key:
            schema["primary_key"] = list(key)
        document = json.dumps({"version": 1, "schema": schema, "bucket_count": 1} | fields).encode()
        await self.tables.create(self.root, database, name, document)
        return await self.tables.by_path(database, name)

    async def events(self, *kinds: str) -> list[tuple[str, StreamEvent]]:
        """The events of these kinds."""
        entries = await self.outbox.read_after(self.store, 0, 10_000)
        return [(entry.event.kind, decode_event(entry.event.payload)) for entry in entries if entry.event.kind in kinds]

    async def _live(self) -> Sequence[int]:
        return self.live
