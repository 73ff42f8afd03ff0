"""What of logs is not kept: too old, too much, needed by nobody, or left behind by a copy that failed."""

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

from .tiered_world import KEEP, PLACE, World, expected_names, fill

THEIRS = DeploymentId("b" * 26)


async def test_what_is_needed_to_follow_is_not_too_old(world: World) -> None:
    log = await (await world.server("one")).open(ReadFormat(rendering=Doubling()))
    await fill(log, 30)
    log.keep_from = lambda: 20
    world.clock.advance(3600)
    await log.maintain(replace(KEEP, ttl_ms=1000))
    assert log.start_offset <= 20
    stored = await log.read_stored(20, 1)
    assert next(iterate_batches(stored.records)).base_offset == 20


async def test_what_nothing_refers_to_is_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    server = await world.server("one")
    log = await server.open()
    await fill(log, 40)
    await log.maintain(KEEP)
    # The store goes away at each step of a copy in turn.
    for failing in range(1, 5):
        await fill(log, 20, first=20 + 20 * failing)
        await log.local.roll()
        with monkeypatch.context() as patched:
            count = itertools.count(1)

            async def refuse(put: Any, last: int, numbers: Any, *args: Any, **named: Any) -> Any:
                if next(numbers) >= last:
                    raise Unavailable("the store is away")
                return await put(*args, **named)

            patched.setattr(world.storage, "put", partial(refuse, world.storage.put, failing, count))
            with refused(ErrorCode.STORAGE):
                await log.maintain(KEEP)
    await log.maintain(KEEP)
    assert await world.storage.names() == sorted(expected_names(log))
    # And while segments that are too old are removed.
    world.clock.advance(60)
    with monkeypatch.context() as patched:

        async def away(keys: Any) -> None:
            raise Unavailable("the store is away")

        patched.setattr(world.storage, "delete_many", away)
        with refused(ErrorCode.STORAGE):
            await log.maintain(replace(KEEP, ttl_ms=1_000))
    assert len(await world.storage.names()) > 1
    await log.maintain(replace(KEEP, ttl_ms=1_000))
    assert await world.storage.names() == sorted(expected_names(log))


async def test_a_crash_in_the_middle_of_a_copy_leaves_nothing_for_long(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 40)
    await log.maintain(KEEP)
    left = Key(f"streams/{PLACE.folder}/id-of-nobody/{200:020d}.log")
    tail = Key(f"streams/{PLACE.folder}/tail/something.log")
    for key in (left, tail):
        await world.storage.put(key, b"records")
    await log.maintain(KEEP)
    assert left in await world.storage.names(), "it is looked for once, not every minute"
    world.servers[0].stop()
    again = await (await world.server("one")).open()
    await again.maintain(KEEP)
    assert await world.storage.names() == sorted([*expected_names(again), tail])


async def test_a_former_home_removes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    await fill(log, 40)
    list_prefix = world.storage.list_prefix
    successors: list[RemoteBackedLog] = []

    async def list_late(prefix: str) -> AsyncIterator[ObjectHead]:
        if not successors and prefix.endswith("/0/"):
            monkeypatch.undo()
            successors.append(await (await world.server("two")).open(ack_after_upload=True))
            await successors[0].local.roll()
            await successors[0].maintain(KEEP)
        async for head in list_prefix(prefix):
            yield head

    monkeypatch.setattr(world.storage, "list_prefix", list_late)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await log.maintain(KEEP)
    (successor,) = successors
    assert successor.remote.manifest.segments
    assert set(expected_names(successor)) <= set(await world.storage.names())
    assert offsets(await read_all(successor))[-1][1] == 80


async def test_what_is_too_old_goes_wherever_it_is(world: World) -> None:
    log = await (await world.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000)
    await fill(log, 40)
    await log.maintain(policy)
    world.clock.advance(6)
    await fill(log, 40, first=40)
    await log.maintain(policy)
    assert log.start_offset == 0
    world.clock.advance(6)
    await log.maintain(policy)
    assert 60 < log.start_offset <= 80
    assert (await log.read(log.start_offset, 1)).records
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(log.start_offset - 1, 1)
    world.clock.advance(60)
    await log.maintain(policy)
    assert log.start_offset == log.end_offset == 160
    assert [name for name in await world.storage.names() if not name.endswith(".manifest")] == []
    assert (await log.append(plain_batch(2, writer_id=7, sequence=80), Acks.ALL)).base_offset == 160


@pytest.mark.parametrize("local_segments", [1, 100])
async def test_what_is_too_old_goes_however_much_is_kept_here(world: World, local_segments: int) -> None:
    log = await (await world.server("one")).open()
    policy = replace(KEEP, ttl_ms=10_000, local_segments=local_segments)
    for first in range(0, 100, 10):
        await fill(log, 10, first=first)
        await log.local.roll()
        world.clock.advance(2)
        await log.maintain(policy)
    # Written every two seconds and kept for ten: five of ten.
    assert log.start_offset == 100
    with refused(ErrorCode.LOG_OFFSET_OUT_OF_RANGE):
        await log.read(99, 1)


async def test_who_has_not_written_for_long_is_forgotten_while_the_log_is_open(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 1)
    assert log.local.writer_count == 1
    world.clock.advance(8 * 24 * 3600)
    await log.maintain(KEEP)
    assert log.local.writer_count == 0


async def test_a_log_that_is_too_large_loses_its_oldest_segments(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 100)
    await log.maintain(replace(KEEP, max_bytes=20_000))
    await log.maintain(replace(KEEP, max_bytes=20_000))
    kept = len(await read_all(log))
    assert 10_000 < kept <= 20_000
    assert log.end_offset == 200


async def test_what_is_needed_here_stays_here(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 60)
    log.keep_from = lambda: 30
    await log.maintain(KEEP)
    assert log.local.start_offset <= 30
    assert (await log.read_stored(30, 1)).records


async def test_segments_replace_the_small_objects_of_a_tail(world: World) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    await fill(log, 30)
    before = len(await world.storage.names("log/db/events-7/0/tail/"))
    await log.maintain(KEEP)
    assert len(await world.storage.names("log/db/events-7/0/tail/")) < before / 2


async def test_a_table_that_is_dropped_leaves_nothing(world: World) -> None:
    server = await world.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await log.remove()

    async def fence(reader: Reader) -> int:
        return 1

    remotes = RemoteLogs(
        world.storage, ClaimedAtFirstUse(world.storage), LogRows(world.meta, fence), server.logs.threads, world.new_id
    )
    ((bucket, manifest, end),) = await remotes.ends(7, None)
    assert bucket == PLACE.bucket
    assert manifest in await world.storage.names()
    assert end == log.remote.manifest.uploaded_end
    await remotes.remove(7, None)
    await remotes.remove(7, None)
    assert await world.storage.names() == []
    assert await remotes.ends(7, None) == []


@pytest.mark.parametrize("policy", [KEEP, replace(KEEP, ttl_ms=1000)], ids=["small objects of the tail", "retention"])
async def test_nothing_is_deleted_from_a_store_of_another_deployment(world: World, policy: RetentionPolicy) -> None:
    log = await (await world.server("one")).open(ack_after_upload=True)
    await fill(log, 30)
    if policy.ttl_ms is not None:
        await log.maintain(KEEP)
        world.clock.advance(3600)
    before = set(await world.storage.names())
    await claim_marker(world.storage, DeploymentMarker(THEIRS), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.maintain(policy)
    assert before - {log.remote.manifest_key} <= set(await world.storage.names())


async def test_local_segments_stay_while_the_store_that_has_the_others_is_another(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 60)
    await log.maintain(replace(KEEP, local_segments=100))
    here = len(log.local.segments)
    await claim_marker(world.storage, DeploymentMarker(THEIRS), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.maintain(KEEP)
    assert len(log.local.segments) == here
    await claim_marker(world.storage, DeploymentMarker(DEPLOYMENT), replacing=True)
    await log.maintain(KEEP)
    assert len(log.local.segments) < here


async def test_stale_files_in_a_folder_of_another_deployment_stay(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.hand_over()
    first.stop()
    second = await world.server("two")
    taken = await second.open()
    await taken.hand_over()
    before = sorted(first.folder.rglob("*"))

    async def refuse() -> None:
        raise StoreMismatch("the folder is another deployment's")

    first.confirm_ownership = refuse
    first.run()
    await first.begin()
    with refused(ErrorCode.STORAGE):
        await first.open()
    assert sorted(first.folder.rglob("*")) == before


async def test_orphan_segments_in_a_store_of_another_deployment_stay(world: World) -> None:
    log = await (await world.server("one")).open()
    await fill(log, 30)
    orphan = Key(f"streams/{PLACE.folder}/id-9999/{0:020d}.log")
    await world.storage.put(orphan, b"another's")
    await claim_marker(world.storage, DeploymentMarker(THEIRS), replacing=True)
    with refused(ErrorCode.STORAGE):
        await log.remote.sweep()
    assert orphan in await world.storage.names()


async def test_a_dropped_table_stays_in_a_store_that_changes_hands_while_it_is_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server("one")
    log = await server.open(ack_after_upload=True)
    await fill(log, 30)
    await log.maintain(KEEP)
    await log.remove()
    before = await world.storage.names()
    listed = world.storage.list_prefix

    async def change_hands(prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        async for head in listed(prefix, start_after):
            yield head
        await claim_marker(world.storage, DeploymentMarker(THEIRS), replacing=True)

    with monkeypatch.context() as patched:
        patched.setattr(world.storage, "list_prefix", change_hands)
        with refused(ErrorCode.STORAGE):
            await server.remotes().remove(7, None)
    assert await world.storage.names() == before
