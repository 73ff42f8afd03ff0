"""Removal of expired segments, of orphans of failed uploads and of dropped tables."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakebed.core.errors import StoreMismatch, Unavailable
from lakebed.core.ids import DeploymentId
from lakebed.fluss.errors import ErrorCode
from lakebed.fluss.log_batches import iterate_batches
from lakebed.meta.seam import Reader
from lakebed.storage.ownership import DeploymentMarker, claim_marker
from lakebed.storage.seam import Key, ObjectHead
from lakebed.streams.log.reading.read_format import ReadFormat
from lakebed.streams.log.remote.log_rows import LogRows
from lakebed.streams.log.remote.remote_backed_log import RemoteBackedLog
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.log.retention import RetentionPolicy
from lakebed.streams.seam import Acks
from tests.contracts.stream_log import (
    Doubling,
    offsets,
    plain_batch,
    read_all,
    refused,
)
from tests.storage.ownership import DEPLOYMENT, ClaimedAtFirstUse

from .log_cluster import KEEP, LOCATION, LogCluster, expected_names, fill

OTHER_DEPLOYMENT = DeploymentId("b" * 26)


async def test_retention_keeps_segments_that_the_kv_index_needs(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open(ReadFormat(rendering=Doubling()))
    await fill(log, 30)
    log.keep_from = lambda: 20
    cluster.clock.advance(3600)
    await log.maintain(replace(KEEP, ttl_ms=1000))
    assert log.start_offset <= 20
    stored = await log.read_stored(20, 1)
    assert next(iterate_batches(stored.records)).base_offset == 20


async def test_orphans_of_failed_uploads_and_deletions_are_removed(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await cluster.server("one")
    log = await server.open()
    await fill(log, 40)
    await log.maintain(KEEP)
    # The store fails at each step of an upload.
    for failing in range(1, 5):
        await fill(log, 20, first=20 + 20 * failing)
        await log.local.roll()
        with monkeypatch.context() as patched:
            count = itertools.count(1)

            async def refuse(put: Any, last: int, numbers: Any, *args: Any, **named: Any) -> Any:
                if next(numbers) >= last:
                    raise Unavailable("the store is unavailable")
                return await put(*args, **named)

            patched.setattr(cluster.storage, "put", partial(refuse, cluster.storage.put, failing, count))
            with refused(ErrorCode.STORAGE):
                await log.maintain(KEEP)
    await log.maintain(KEEP)
    assert await cluster.storage.names() == sorted(expected_names(log))
    # The store fails while expired segments are removed.
    cluster.clock.advance(60)
    with monkeypatch.context() as patched:

        async def away(keys: Any) -> None:
            raise Unavailable("the store is unavailable")

        patched.setattr(cluster.storage, "delete_many", away)
        with refused(ErrorCode.STORAGE):
            await log.maintain(replace(KEEP, ttl_ms=1_000))
    assert len(await cluster.storage.names()) > 1
    await log.maintain(replace(KEEP, ttl_ms=1_000))
    assert await cluster.storage.names() == sorted(expected_names(log))


async def test_orphans_of_a_crash_are_removed_after_the_restart(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 40)
    await log.maintain(KEEP)
    orphan = Key(f"streams/{LOCATION.folder}/id-of-orphan/{200:020d}.log")
    tail = Key(f"streams/{LOCATION.folder}/tail/something.log")
    for key in (orphan, tail):
        await cluster.storage.put(key, b"records")
    await log.maintain(KEEP)
    assert orphan in await cluster.storage.names(), "orphans are searched once per opening"
    cluster.servers[0].stop()
    again = await (await cluster.server("one")).open()
    await again.maintain(KEEP)
    assert await cluster.storage.names() == sorted([*expected_names(again), tail])


async def test_former_leader_removes_nothing(cluster: LogCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    await fill(log, 40)
    list_prefix = cluster.storage.list_prefix
    successors: list[RemoteBackedLog] = []

    async def list_late(prefix: str) -> AsyncIterator[ObjectHead]:
        if not successors and prefix.endswith("/0/"):
            monkeypatch.undo()
            successors.append(await (await cluster.server("two")).open(ack_after_upload=True))
            await successors[0].local.roll()
            await successors[0].maintain(KEEP)
        async for head in list_prefix(prefix):
            yield head

    monkeypatch.setattr(cluster.storage, "list_prefix", list_late)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.maintain(KEEP)
    (successor,) = successors
    assert successor.remote.manifest.segments
    assert set(expected_names(successor)) <= set(await cluster.storage.names())
    assert offsets(await read_all(successor))[-1][1] == 80


async def test_expired_segments_are_removed_locally_and_remotely(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000)
    await fill(log, 40)
    await log.maintain(policy)
    cluster.clock.advance(6)
    await fill(log, 40, first=40)
    await log.maintain(policy)
    assert log.start_offset == 0
    cluster.clock.advance(6)
    await log.maintain(policy)
    assert 60 < log.start_offset <= 80
    assert (await log.read(log.start_offset, 1)).records
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(log.start_offset - 1, 1)
    cluster.clock.advance(60)
    await log.maintain(policy)
    assert log.start_offset == log.end_offset == 160
    assert [name for name in await cluster.storage.names() if not name.endswith(".manifest")] == []
    assert (await log.append(plain_batch(2, writer_id=7, sequence=80), Acks.ALL)).base_offset == 160


@pytest.mark.parametrize("local_segments", [1, 100])
async def test_expiry_does_not_depend_on_the_number_of_local_segments(cluster: LogCluster, local_segments: int) -> None:
    log = await (await cluster.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000, local_segments=local_segments)
    for first in range(0, 100, 10):
        await fill(log, 10, first=first)
        await log.local.roll()
        cluster.clock.advance(2)
        await log.maintain(policy)
    # Written every two seconds and kept for ten: five of ten.
    assert log.start_offset == 100
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(99, 1)


async def test_idle_writers_of_an_open_log_are_forgotten(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 1)
    assert log.local.writer_count == 1
    cluster.clock.advance(8 * 24 * 3600)
    await log.maintain(KEEP)
    assert log.local.writer_count == 0


async def test_log_above_its_maximum_size_loses_its_oldest_segments(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 100)
    await log.maintain(replace(KEEP, max_bytes=20_000))
    await log.maintain(replace(KEEP, max_bytes=20_000))
    kept = len(await read_all(log))
    assert 10_000 < kept <= 20_000
    assert log.end_offset == 200


async def test_local_segments_that_the_kv_index_needs_stay(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 60)
    log.keep_from = lambda: 30
    await log.maintain(KEEP)
    assert log.local.start_offset <= 30
    assert (await log.read_stored(30, 1)).records


async def test_uploaded_segments_replace_tail_objects(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    await fill(log, 30)
    before = len(await cluster.storage.names("log/db/events-7/0/tail/"))
    await log.maintain(KEEP)
    assert len(await cluster.storage.names("log/db/events-7/0/tail/")) < before / 2


async def test_dropped_table_leaves_no_objects(cluster: LogCluster) -> None:
    server = await cluster.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await log.remove()

    async def fence(reader: Reader) -> int:
        return 1

    remotes = RemoteLogs(
        cluster.storage,
        ClaimedAtFirstUse(cluster.storage),
        LogRows(cluster.meta, fence),
        server.logs.threads,
        cluster.new_id,
    )
    ((bucket, manifest, end),) = await remotes.ends(7, None)
    assert bucket == LOCATION.bucket
    assert manifest in await cluster.storage.names()
    assert end == log.remote.manifest.uploaded_end
    await remotes.remove(7, None)
    await remotes.remove(7, None)
    assert await cluster.storage.names() == []
    assert await remotes.ends(7, None) == []


@pytest.mark.parametrize("policy", [KEEP, replace(KEEP, ttl_ms=1000)], ids=["tail objects", "retention"])
async def test_nothing_is_deleted_from_a_store_of_another_deployment(
    cluster: LogCluster, policy: RetentionPolicy
) -> None:
    log = await (await cluster.server("one")).open(ack_after_upload=True)
    await fill(log, 30)
    if policy.ttl_ms is not None:
        await log.maintain(KEEP)
        cluster.clock.advance(3600)
    before = set(await cluster.storage.names())
    await claim_marker(cluster.storage, DeploymentMarker(OTHER_DEPLOYMENT), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.maintain(policy)
    assert before - {log.remote.manifest_key} <= set(await cluster.storage.names())


async def test_local_segments_stay_while_the_store_belongs_to_another_deployment(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 60)
    await log.maintain(replace(KEEP, local_segments=100))
    local_count = len(log.local.segments)
    await claim_marker(cluster.storage, DeploymentMarker(OTHER_DEPLOYMENT), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.maintain(KEEP)
    assert len(log.local.segments) == local_count
    await claim_marker(cluster.storage, DeploymentMarker(DEPLOYMENT), replacing=True)
    await log.maintain(KEEP)
    assert len(log.local.segments) < local_count


async def test_stale_files_in_a_folder_of_another_deployment_stay(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.hand_over()
    first.stop()
    second = await cluster.server("two")
    taken_over = await second.open()
    await taken_over.hand_over()
    before = sorted(first.folder.rglob("*"))

    async def refuse() -> None:
        raise StoreMismatch("the folder is another deployment's")

    first.confirm_ownership = refuse
    first.start()
    await first.become_leader()
    with refused(ErrorCode.STORAGE):
        await first.open()
    assert sorted(first.folder.rglob("*")) == before


async def test_orphan_segments_in_a_store_of_another_deployment_stay(cluster: LogCluster) -> None:
    log = await (await cluster.server("one")).open()
    await fill(log, 30)
    orphan = Key(f"streams/{LOCATION.folder}/id-9999/{0:020d}.log")
    await cluster.storage.put(orphan, b"another's")
    await claim_marker(cluster.storage, DeploymentMarker(OTHER_DEPLOYMENT), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.remote.sweep()
    assert orphan in await cluster.storage.names()


async def test_dropped_table_stays_if_the_store_changes_owner_during_the_listing(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await cluster.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await log.remove()
    before = await cluster.storage.names()
    listed = cluster.storage.list_prefix

    async def change_owner(prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        async for head in listed(prefix, start_after):
            yield head
        await claim_marker(cluster.storage, DeploymentMarker(OTHER_DEPLOYMENT), replacing=True)

    with monkeypatch.context() as patched:
        patched.setattr(cluster.storage, "list_prefix", change_owner)
        with refused(ErrorCode.STORAGE):
            await server.remotes().remove(7, None)
    assert await cluster.storage.names() == before
