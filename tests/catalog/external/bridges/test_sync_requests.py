from __future__ import annotations

import msgspec
import pytest

from lakebed.catalog.external.bridges.model import Bridge, BridgeConfig, ExternalCatalogKind, SyncStatus
from lakebed.catalog.external.bridges.sync import SYNC_OPERATION, SyncResult
from lakebed.catalog.external.bridges.sync_requests import SyncRequest
from lakebed.catalog.idempotency import Mutation
from lakebed.core.errors import AccessDenied, CommitConflict, InvalidInput, NotFound, Unavailable
from lakebed.net.http import Http
from tests.catalog.extension_catalog import extended, no_network
from tests.catalog.external.bridges.external_tables import (
    OPERATED,
    POLLED,
    ExternalRestCatalog,
    History,
    external_history,
)
from tests.catalog.harness import CatalogHarness, name, set_properties, user_with
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)


async def sync(
    catalog: CatalogHarness, request: SyncRequest, http: Http = no_network, mutation: Mutation = AS_ROOT
) -> SyncResult:
    syncing = extended(catalog, http).tables.syncs
    return await syncing.sync(mutation, "lake", name(), request, catalog.store.clock.now_ms())


async def bridge_of(catalog: CatalogHarness) -> Bridge:
    found = (await extended(catalog).tables.bridges.get(ROOT, "lake", name())).bridge
    assert found is not None
    return found


async def first_sync(catalog: CatalogHarness, history: History) -> SyncResult:
    return await sync(catalog, SyncRequest(OPERATED, metadata_at=history.files[1]))


async def next_request(catalog: CatalogHarness, where: str, commit_id: str = "") -> SyncRequest:
    entry = await catalog.entry(name())
    return SyncRequest(
        metadata_at=where,
        expected_token=entry.version_token,
        expected_at=entry.metadata_at,
        commit_id=commit_id,
    )


async def test_table_is_registered_with_its_bridge(catalog: CatalogHarness) -> None:
    history = await external_history(catalog)
    synced = await first_sync(catalog, history)
    assert synced.status is SyncStatus.REGISTERED
    assert synced.committed.entry.metadata_at == history.files[1]
    state = (await bridge_of(catalog)).state
    assert (state.status, state.synced_at) == (SyncStatus.REGISTERED, history.files[1])
    assert state.synced_token == (await catalog.entry(name())).version_token


async def test_table_is_synced_to_a_given_metadata_file(catalog: CatalogHarness) -> None:
    history = await external_history(catalog)
    await first_sync(catalog, history)
    synced = await sync(catalog, await next_request(catalog, history.files[3]))
    assert synced.status is SyncStatus.COMMITTED
    entry = await catalog.entry(name())
    assert (entry.metadata_at, entry.generation) == (history.files[3], 2)
    assert len((await catalog.metadata(name())).snapshots) == 3
    _, event = (await catalog.events())[-1]
    assert event.operation == SYNC_OPERATION


async def test_stale_expectation_moves_nothing_and_is_recorded(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    await first_sync(catalog, history)
    good = await next_request(catalog, history.files[2])
    before = await catalog.entry(name())
    for stale in (good._replace(expected_token="stale"), good._replace(expected_at=history.files[0])):
        with pytest.raises(CommitConflict):
            await sync(catalog, stale)
        assert await catalog.entry(name()) == before
    state = (await bridge_of(catalog)).state
    assert (state.status, state.failures, state.synced_at) == (SyncStatus.CONFLICT, 2, history.files[1])
    failed = [event for kind, event in await catalog.events() if kind == "TableBridgeFailed"]
    assert [event.facts["status"] for event in failed] == ["conflict"]  # one event, not one per failure
    await sync(catalog, good)
    assert (await bridge_of(catalog)).state.failures == 0


async def test_expectations_are_required_exactly_for_existing_tables(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    where = history.files[1]
    async with catalog.unchanged():
        for request in (
            SyncRequest(OPERATED, metadata_at=where, expected_token="x", expected_at="y"),
            SyncRequest(OPERATED, metadata_at=where, expected_token="x"),
            SyncRequest(OPERATED),
            SyncRequest(metadata_at=where),
        ):
            with pytest.raises(InvalidInput):
                await sync(catalog, request)
    await first_sync(catalog, history)
    async with catalog.unchanged():
        for request in (SyncRequest(metadata_at=where), SyncRequest(metadata_at=where, expected_token="x")):
            with pytest.raises(InvalidInput):
                await sync(catalog, request)


async def test_configuration_is_stored_with_the_move_or_not_at_all(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    other = "99999999-2222-3333-4444-555555555555"
    wrong = msgspec.structs.replace(OPERATED, external_table_uuid=other)
    async with catalog.unchanged():
        with pytest.raises(InvalidInput, match="another table"):
            await sync(catalog, SyncRequest(wrong, metadata_at=history.files[1]))
        with pytest.raises(InvalidInput, match="metadata file does not exist"):
            await sync(catalog, SyncRequest(wrong, metadata_at="s3://lake/absent.metadata.json"))
        with pytest.raises(InvalidInput, match="metadata file does not exist"):
            await sync(catalog, SyncRequest(OPERATED, metadata_at="s3://lake/absent.metadata.json"))
    right = msgspec.structs.replace(OPERATED, external_table_uuid=history.uuid.upper())
    assert (await sync(catalog, SyncRequest(right, metadata_at=history.files[1]))).status is SyncStatus.REGISTERED


async def test_same_commit_id_syncs_once(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    first = SyncRequest(OPERATED, metadata_at=history.files[1], commit_id="s1")
    made = await sync(catalog, first)
    assert (await sync(catalog, first)).status is SyncStatus.REGISTERED
    request = await next_request(catalog, history.files[2], commit_id="s2")
    moved = await sync(catalog, request)
    again = await sync(catalog, request)
    assert again.status is SyncStatus.COMMITTED
    assert again.committed.entry == moved.committed.entry
    assert moved.committed.entry.generation == made.committed.entry.generation + 1
    with pytest.raises(CommitConflict, match="used for a different commit"):
        await sync(catalog, request._replace(metadata_at=history.files[3]))


async def test_sync_without_a_metadata_file_reads_the_external_table(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    external = ExternalRestCatalog(history, at=1)
    assert (await sync(catalog, SyncRequest(POLLED), external)).status is SyncStatus.REGISTERED
    assert (await sync(catalog, SyncRequest(), external)).status is SyncStatus.UNCHANGED
    external.at = 3
    synced = await sync(catalog, SyncRequest(), external)
    assert (synced.status, synced.committed.entry.metadata_at) == (SyncStatus.COMMITTED, history.files[3])
    await catalog.commit(name(), set_properties(a="1"))
    with pytest.raises(CommitConflict, match="has commits since the last sync"):
        await sync(catalog, SyncRequest(), external)
    external.failure = Unavailable("no answer")
    with pytest.raises(Unavailable):
        await sync(catalog, SyncRequest(), external)
    assert (await bridge_of(catalog)).state.status is SyncStatus.UNREACHABLE


async def test_missing_metadata_file_is_reported(light_catalog: CatalogHarness) -> None:
    history = await external_history(light_catalog)
    history.files.append("s3://lake/foreign/metadata/not-yet.metadata.json")
    external = ExternalRestCatalog(history, at=4)
    with pytest.raises(NotFound, match="yet"):
        await sync(light_catalog, SyncRequest(POLLED), external)


async def test_sync_requires_the_permissions_of_its_changes(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    request = SyncRequest(OPERATED, metadata_at=history.files[1])
    see = "s3tables:GetTableMetadataLocation"
    for data_access in (
        (see,),
        (see, "s3tables:CreateTable"),
        ("s3tables:CreateTable", "s3:*"),
        (see, "s3tables:CreateTable", "s3:GetObject"),
    ):
        with pytest.raises(AccessDenied):
            await sync(catalog, request, mutation=Mutation(user_with(*data_access)))
    maker = user_with(see, "s3tables:CreateTable", "s3:*")
    await sync(catalog, request, mutation=Mutation(maker))
    async with catalog.unchanged():
        with pytest.raises(AccessDenied):
            await sync(catalog, await next_request(catalog, history.files[2]), mutation=Mutation(maker))


async def test_caller_that_may_not_sync_sends_no_request(light_catalog: CatalogHarness) -> None:
    history = await external_history(light_catalog)
    external = ExternalRestCatalog(history, at=1)
    await sync(light_catalog, SyncRequest(POLLED), external)
    before = len(external.requests)
    reader = Mutation(user_with("s3tables:GetTableMetadataLocation"))
    async with light_catalog.unchanged():
        with pytest.raises(AccessDenied):
            await sync(light_catalog, SyncRequest(), external, reader)
    assert len(external.requests) == before


async def test_metadata_folder_is_synced(light_catalog: CatalogHarness) -> None:
    catalog = light_catalog
    history = await external_history(catalog)
    folder = history.files[0].rpartition("/")[0]
    config = BridgeConfig(catalog=ExternalCatalogKind.FOLDER, folder=folder)
    synced = await sync(catalog, SyncRequest(config))
    assert synced.committed.entry.metadata_at == history.files[-1]
