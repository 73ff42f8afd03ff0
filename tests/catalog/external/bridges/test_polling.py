from __future__ import annotations

import asyncio
from uuid import uuid4

import msgspec
import pytest

from lakebed.catalog.external.bridges.model import Bridge, BridgeConfig, ExternalCatalogKind, SyncMode, SyncStatus
from lakebed.catalog.external.bridges.polling import BridgePolling
from lakebed.catalog.external.bridges.rest_catalog import RestCatalogTable
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.maintenance.jobs.rows import NEXT_VERSION
from lakebed.catalog.model import EntryKind
from lakebed.core.errors import Unavailable
from lakebed.meta.seam import Transaction
from tests.catalog.extension_catalog import extended
from tests.catalog.external.bridges.external_tables import OPERATED, POLLED, ExternalRestCatalog, external_history
from tests.catalog.harness import CatalogHarness, FaultyStore, name, set_properties, wire_catalog
from tests.objects.stores import ROOT


class Bridged:
    """A catalog with a bridge to an external catalog."""

    def __init__(self, catalog: CatalogHarness, external: ExternalRestCatalog) -> None:
        self.catalog = catalog
        self.external = external
        self.extensions = extended(catalog, external)

    @property
    def polling(self) -> BridgePolling:
        return self.extensions.polling

    async def configure(self, config: BridgeConfig = POLLED, table: str = "t") -> None:
        await self.extensions.tables.bridges.configure(ROOT, "lake", name(table), config)

    async def bridge(self, table: str = "t") -> Bridge:
        found = (await self.extensions.tables.bridges.get(ROOT, "lake", name(table))).bridge
        assert found is not None
        return found

    async def poll(self) -> Bridge:
        """Advance the clock until the bridge is due, and poll."""
        bridge = await self.bridge()
        assert bridge.due_ms is not None
        clock = self.catalog.store.clock
        clock.advance(max(0, bridge.due_ms - clock.now_ms()) / 1000)
        assert await self.polling.poll_due() == 1
        return await self.bridge()


async def bridged(catalog: CatalogHarness, at: int = 1) -> Bridged:
    return Bridged(catalog, ExternalRestCatalog(await external_history(catalog), at=at))


async def test_polled_table_is_registered_and_follows(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    files = sides.external.history.files
    assert (await sides.poll()).state.status is SyncStatus.REGISTERED
    assert (await catalog.entry(name())).metadata_at == files[1]
    assert (await sides.poll()).state.status is SyncStatus.UNCHANGED
    sides.external.at = 3
    assert (await sides.poll()).state.status is SyncStatus.COMMITTED
    entry = await catalog.entry(name())
    assert (entry.metadata_at, entry.generation) == (files[3], 2)
    _, event = (await catalog.events())[-1]
    assert (event.operation, event.principal) == ("external-sync", "root")


async def test_bridge_is_not_polled_before_it_is_due(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    await sides.configure(OPERATED, "u")
    await sides.poll()
    before = len(sides.external.requests)
    assert await sides.polling.poll_due() == 0
    light_catalog.store.clock.advance(POLLED.poll_seconds - 1)
    assert await sides.polling.poll_due() == 0
    assert len(sides.external.requests) == before
    light_catalog.store.clock.advance(1)
    assert await sides.polling.poll_due() == 1


async def test_interrupted_poll_is_repeated_before_the_next_interval(
    light_catalog: CatalogHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = await bridged(light_catalog)
    await sides.configure(msgspec.structs.replace(POLLED, poll_seconds=86_400))
    began = asyncio.Event()

    async def hang(*_: object) -> None:
        began.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as stopped:
        stopped.setattr(RestCatalogTable, "current", hang)
        looking = asyncio.create_task(sides.polling.poll_due())
        await began.wait()
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
    assert await sides.polling.poll_due() == 0
    light_catalog.store.clock.advance(120)
    assert await sides.polling.poll_due() == 1
    bridge = await sides.bridge()
    assert bridge.due_ms == light_catalog.store.clock.now_ms() + 86_400_000


async def test_commits_made_here_stay_and_the_conflict_is_recorded(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    committed = await catalog.commit(name(), set_properties(mine="1"))
    sides.external.at = 2
    bridge = await sides.poll()
    assert bridge.state.status is SyncStatus.CONFLICT
    assert "has commits since the last sync" in bridge.state.message
    assert bridge.state.synced_at == sides.external.history.files[1]
    assert await catalog.entry(name()) == committed.entry
    kind, event = (await catalog.events())[-1]
    assert (kind, event.facts["table"], event.facts["status"]) == ("TableBridgeFailed", "t", "conflict")


async def test_conflict_ends_when_the_table_is_rolled_back(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    synced_at = (await catalog.entry(name())).metadata_at
    await catalog.commit(name(), set_properties(mine="1"))
    sides.external.at = 2
    assert (await sides.poll()).state.status is SyncStatus.CONFLICT
    token = (await catalog.entry(name())).version_token
    await sides.extensions.tables.rollback.roll_back(Mutation(ROOT), "lake", name(), synced_at, expected_token=token)
    assert (await sides.poll()).state.status is SyncStatus.COMMITTED


async def test_external_table_with_another_uuid_is_rejected(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    await sides.poll()
    before = await light_catalog.entry(name())
    sides.external.at, sides.external.uuid = 2, "99999999-2222-3333-4444-555555555555"
    assert (await sides.poll()).state.status is SyncStatus.CONFLICT
    # Also when only the metadata file belongs to another table.
    other = await light_catalog.create("other")
    sides.external.uuid = None
    sides.external.history.files[2] = other.entry.metadata_at
    assert (await sides.poll()).state.status is SyncStatus.REFUSED
    assert await light_catalog.entry(name()) == before


async def test_poll_does_not_restore_a_dropped_table(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    await sides.poll()
    await light_catalog.drop()
    bridge = await sides.poll()
    assert bridge.state.status is SyncStatus.CONFLICT
    assert (await light_catalog.entries.find(light_catalog.store.meta, "lake", name())).entry is None


async def test_external_rollback_is_not_followed(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog, at=3)
    await sides.configure()
    await sides.poll()
    before = await light_catalog.entry(name())
    sides.external.at = 1
    bridge = await sides.poll()
    assert bridge.state.status is SyncStatus.REFUSED
    assert "cannot decrease" in bridge.state.message
    assert await light_catalog.entry(name()) == before


@pytest.mark.parametrize(
    ("status", "recorded"),
    [(403, SyncStatus.REFUSED), (404, SyncStatus.MISSING), (503, SyncStatus.UNREACHABLE)],
)
async def test_failures_are_recorded_and_polled_less_often(
    light_catalog: CatalogHarness, status: int, recorded: SyncStatus
) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    sides.external.status = status
    pauses = []
    for failures in range(1, 7):
        bridge = await sides.poll()
        assert (bridge.state.status, bridge.state.failures) == (recorded, failures)
        assert bridge.due_ms is not None
        pauses.append((bridge.due_ms - light_catalog.store.clock.now_ms()) // 1000)
    assert pauses == [120, 240, 480, 960, 960, 960]
    events = [event for kind, event in await light_catalog.events() if kind == "TableBridgeFailed"]
    assert len(events) == 1
    sides.external.status = 200
    bridge = await sides.poll()
    assert (bridge.state.status, bridge.state.failures) == (SyncStatus.REGISTERED, 0)


async def test_missing_metadata_file_is_polled_again(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    sides = await bridged(catalog)
    await sides.configure()
    late = sides.external.history.files[1]
    document = await catalog.files.read(late)
    key = late.removeprefix("s3://lake/")
    await catalog.store.delete("lake", key)
    assert (await sides.poll()).state.status is SyncStatus.MISSING
    await catalog.store.put("lake", key, document)
    assert (await sides.poll()).state.status is SyncStatus.REGISTERED


async def test_poll_reads_no_metadata_outside_the_table_bucket(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    sides = await bridged(catalog)
    await sides.configure()
    await catalog.store.bucket("private")
    await catalog.store.put("private", "1.metadata.json", await catalog.files.read(sides.external.history.files[1]))
    sides.external.history.files[1] = "s3://private/1.metadata.json"
    bridge = await sides.poll()
    assert bridge.state.status is SyncStatus.REFUSED
    assert "table bucket" in bridge.state.message


async def test_poll_reads_no_metadata_of_another_catalog_in_the_bucket(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    sides = await bridged(catalog)
    for warehouse in ("one", "two"):
        await catalog.make(warehouse, f"s3://sea/{warehouse}")
        await catalog.namespaces.create(Mutation(ROOT), warehouse, ("ns",), {})
    document = await catalog.files.read(sides.external.history.files[1])
    await catalog.store.put("sea", "two/1.metadata.json", document)
    sides.external.history.files[1] = "s3://sea/two/1.metadata.json"
    bridges = sides.extensions.tables.bridges
    for warehouse in ("one", "two"):
        await bridges.configure(ROOT, warehouse, name(), POLLED)
    assert await sides.polling.poll_due() == 2
    one, two = [(await bridges.get(ROOT, warehouse, name())).bridge for warehouse in ("one", "two")]
    assert one is not None
    assert two is not None
    assert (one.state.status, "table bucket" in one.state.message) == (SyncStatus.REFUSED, True)
    # The file is read, and states a location elsewhere.
    assert "outside the catalog's bucket" in two.state.message


async def test_metadata_folder_is_polled(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    files = sides.external.history.files
    await catalog.store.bucket("loose")
    for number, source in enumerate(files[:2], start=1):
        await catalog.store.put("loose", f"t/v{number}.metadata.json", await catalog.files.read(source))
    await sides.configure(
        BridgeConfig(catalog=ExternalCatalogKind.FOLDER, folder="s3://loose/t", sync_mode=SyncMode.POLL, poll_seconds=5)
    )
    assert (await sides.poll()).state.status is SyncStatus.REGISTERED
    assert (await catalog.entry(name())).metadata_at == "s3://loose/t/v2.metadata.json"
    await catalog.store.put("loose", "t/v3.metadata.json", await catalog.files.read(files[2]))
    assert (await sides.poll()).state.status is SyncStatus.COMMITTED
    assert (await catalog.entry(name())).metadata_at == "s3://loose/t/v3.metadata.json"
    assert sides.external.requests == []


async def test_bridge_is_polled_once_by_several_servers(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    others = [Bridged(catalog, sides.external).polling for _ in range(3)]
    looked = await asyncio.gather(*(polling.poll_due() for polling in others))
    assert sum(looked) == 1
    assert (await catalog.entry(name())).generation == 1


async def test_failing_poll_does_not_block_others(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    gone = msgspec.structs.replace(
        POLLED, catalog=ExternalCatalogKind.FOLDER, folder="s3://lake/nothing-there", uri="", external_table=""
    )
    await sides.configure(msgspec.structs.replace(gone, external_namespace=()), "a")
    await sides.configure()
    assert await sides.polling.poll_due() == 2
    assert (await sides.bridge("a")).state.status is SyncStatus.MISSING
    assert (await sides.bridge()).state.status is SyncStatus.REGISTERED


async def test_bridge_reconfigured_during_a_poll_moves_nothing(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    sides.external.at = 2
    before = await catalog.entry(name())
    eventful = FaultyStore(catalog.store.meta)
    racing = Bridged(wire_catalog(catalog.store, eventful), sides.external)
    catalog.store.clock.advance(POLLED.poll_seconds)

    async def reconfigure() -> None:
        await sides.configure(msgspec.structs.replace(POLLED, poll_seconds=600))

    eventful.meanwhile = reconfigure
    assert await racing.polling.poll_due() == 1
    assert await catalog.entry(name()) == before
    bridge = await sides.bridge()
    assert (bridge.config.poll_seconds, bridge.state.status) == (600, SyncStatus.REGISTERED)


async def test_unreachable_catalog_is_reported_without_secrets(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    sides.external.failure = Unavailable("no answer. host=catalog.example path=/ reason=TimeoutError")
    bridge = await sides.poll()
    assert bridge.state.status is SyncStatus.UNREACHABLE
    assert "catalog.example" in bridge.state.message


async def tidy(catalog: CatalogHarness, table: str = "t") -> None:
    """Give the table a new version with the same metadata, as maintenance does when it removes files."""
    entry = await catalog.entry(name(table))

    async def work(tx: Transaction) -> int:
        return await tx.run(NEXT_VERSION, uuid4().hex, entry.generation + 1, entry.id, entry.version_token)

    assert await catalog.store.meta.transact(work)


async def test_table_follows_after_maintenance_removed_files(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    await tidy(catalog)
    sides.external.at = 2
    # The external metadata log is truncated, and does not contain the state here.
    sides.external.history.files[:2] = ["s3://lake/0.metadata.json", "s3://lake/1.metadata.json"]
    assert (await sides.poll()).state.status is SyncStatus.COMMITTED
    entry = await catalog.entry(name())
    assert (entry.metadata_at, entry.generation) == (sides.external.history.files[2], 3)


async def test_table_follows_while_maintenance_removes_files(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    sides.external.at = 2
    eventful = FaultyStore(catalog.store.meta)
    racing = Bridged(wire_catalog(catalog.store, eventful), sides.external)
    catalog.store.clock.advance(POLLED.poll_seconds)

    eventful.meanwhile = lambda: tidy(catalog)
    assert await racing.polling.poll_due() == 1
    assert (await sides.bridge()).state.status is SyncStatus.COMMITTED
    assert (await catalog.entry(name())).metadata_at == sides.external.history.files[2]


async def test_renamed_table_is_polled_under_its_new_name(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await catalog.namespace("other")
    await sides.configure()
    await sides.poll()
    before = await sides.bridge()
    renamed = name("u", "other")
    await catalog.renaming.rename(Mutation(ROOT), "lake", name(), renamed, EntryKind.TABLE)
    bridges = sides.extensions.tables.bridges
    assert (await bridges.get(ROOT, "lake", name())).bridge is None
    moved = await bridges.get(ROOT, "lake", renamed)
    assert moved.bridge is not None
    assert (moved.bridge.config, moved.bridge.state, moved.bridge.due_ms) == (
        before.config,
        before.state,
        before.due_ms,
    )
    sides.external.at = 3
    catalog.store.clock.advance(POLLED.poll_seconds)
    assert await sides.polling.poll_due() == 1
    assert (await catalog.entry(renamed)).metadata_at == sides.external.history.files[3]
    # The old name is free: no table is registered under it.
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_table_renamed_during_a_poll_stays_unchanged(catalog: CatalogHarness) -> None:
    sides = await bridged(catalog)
    await sides.configure()
    await sides.poll()
    sides.external.at = 2
    eventful = FaultyStore(catalog.store.meta)
    racing = Bridged(wire_catalog(catalog.store, eventful), sides.external)
    catalog.store.clock.advance(POLLED.poll_seconds)

    eventful.meanwhile = lambda: catalog.renaming.rename(Mutation(ROOT), "lake", name(), name("u"), EntryKind.TABLE)
    assert await racing.polling.poll_due() == 1
    assert (await catalog.entry(name("u"))).metadata_at == sides.external.history.files[1]
    assert (await sides.bridge("u")).state.status is SyncStatus.REGISTERED
    assert (await catalog.entries.find(catalog.store.meta, "lake", name())).entry is None


async def test_host_removed_from_the_settings_is_not_polled(light_catalog: CatalogHarness) -> None:
    sides = await bridged(light_catalog)
    await sides.configure()
    await sides.poll()
    before = len(sides.external.requests)
    sides.extensions = extended(light_catalog, sides.external, hosts=("other.example",))
    state = (await sides.poll()).state
    assert state.status is SyncStatus.UNREACHABLE
    assert "federation.hosts" in state.message
    assert len(sides.external.requests) == before
