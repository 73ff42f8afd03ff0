"""A server that returns uploads what only its disk has of a log; the leader continues, whatever crashes meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import iterate_batches
from lakebed.storage.folder import files
from lakebed.storage.seam import ByteSource, Key, Metadata, ObjectVersion
from lakebed.streams.log.reading.read_format import ReadFormat
from lakebed.streams.log.remote.log_rows import LogRow
from lakebed.streams.log.remote.opening import LocalCopy, LocalFiles, classify_local_copy
from lakebed.streams.log.remote.remote_backed_log import RemoteBackedLog
from lakebed.streams.seam import Acks
from tests.contracts.stream_log import Doubling, offsets, plain_batch, read_all, refused
from tests.meta.stores import open_migrated_file

from .tiered_world import KEEP, PLACE, Server, World, fill


async def dead(server: Server, log: RemoteBackedLog) -> bytes:
    """Kill a server that led; all that it had acknowledged."""
    was = await read_all(log)
    server.stop()
    return was


async def test_the_leader_continues_what_a_server_that_returned_has_uploaded(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    was = await dead(first, log)
    second = await world.server("two")
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
        await second.open()
    returned = world.follower("one")
    assert await returned.upload_local_tail()
    assert not await returned.upload_local_tail(), "there is nothing left"
    log = await second.open()
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70
    # And back: what the first has on its disk is not the log any more.
    was = await dead(second, log)
    world.follower("two")
    assert await world.servers[-1].upload_local_tail()
    await returned.begin()
    log = await returned.open()
    assert await read_all(log) == was


async def test_changes_of_keys_are_uploaded_as_they_were_appended_too(world: World) -> None:
    first = await world.server("one")
    log = await first.open(ReadFormat(rendering=Doubling()))
    log.keep_from = lambda: 0
    await fill(log, 30)
    stored = (await log.read_stored(0, 1 << 20)).records
    await dead(first, log)
    second = await world.server("two")
    assert await world.follower("one").upload_local_tail(ReadFormat(rendering=Doubling()))
    log = await second.open(ReadFormat(rendering=Doubling()))
    found, offset = b"", 0
    while offset < log.high_watermark:
        fetched = await log.read_stored(offset, 1 << 20)
        found, offset = found + bytes(fetched.records), fetched.next_offset
    assert found.startswith(bytes(stored))
    assert offset == 60


class DiesAt:
    """The object store refuses the n-th write, and every later one: the server was killed there."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.writes = 0
        put = world.storage.put

        async def dying(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
            self.writes += 1
            world.storage.is_away = self.writes >= at
            return await put(key, body, metadata=metadata)

        monkeypatch.setattr(world.storage, "put", dying)


@pytest.mark.parametrize("at", range(1, 12))
async def test_a_server_that_dies_while_it_uploads_goes_on_when_it_returns(
    world: World, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 40)
    was = await dead(first, log)
    second = await world.server("two")
    with monkeypatch.context() as patched:
        DiesAt(world, patched, at)
        returned = world.follower("one")
        with refused(ErrorCode.STORAGE):
            await returned.upload_local_tail()
        returned.stop()
    world.storage.is_away = False
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
        await second.open()
    assert await world.follower("one").upload_local_tail()
    assert await read_all(await second.open()) == was


async def test_a_server_that_leads_again_before_it_has_uploaded_goes_on_from_its_disk(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    was = await dead(first, log)
    await world.server("two")
    again = await world.server("one")
    log = await again.open()
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=3), Acks.ALL)).base_offset == 6


async def test_the_leader_that_changes_during_the_upload_changes_nothing(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 40)
    was = await dead(first, log)
    second, returned = await world.server("two"), world.follower("one")
    put, third = world.storage.put, list[Server]()

    async def meanwhile(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if not third:
            third.append(await world.server("three"))
            with refused(ErrorCode.LEADER_NOT_AVAILABLE):
                await third[0].open()
        return await put(key, body, metadata=metadata)

    world.storage.put = meanwhile  # type: ignore[method-assign]
    assert await returned.upload_local_tail()
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await second.open()
    assert await read_all(await third[0].open()) == was


async def forget(world: World, server: str) -> None:
    """As `lakebed streams forget-server` does."""
    await world.meta.transact(
        lambda tx: tx.run("UPDATE stream_logs SET tail_server = '' WHERE tail_server = ?", server)
    )


async def test_a_server_that_was_given_up_during_its_upload_is_no_part_of_the_log(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 40)
    await dead(first, log)
    second, returned = await world.server("two"), world.follower("one")
    put, continued = world.storage.put, list[RemoteBackedLog]()

    async def meanwhile(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        written = await put(key, body, metadata=metadata)
        if not continued and key.endswith(".manifest"):
            await forget(world, "one")
            continued.append(await second.open())
            await fill(continued[0], 2)
        return written

    world.storage.put = meanwhile  # type: ignore[method-assign]
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await returned.upload_local_tail()
    (log,) = continued
    was = await read_all(log)
    assert offsets(was) == [(0, 2), (2, 4)]
    await log.hand_over()
    second.stop()
    await returned.begin()
    assert await read_all(await returned.open()) == was


async def test_a_server_that_returns_before_others_went_on_without_it_has_its_records_still(world: World) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    was = await dead(first, log)
    await forget(world, "one")
    again = await world.server("one")
    assert await read_all(await again.open()) == was


@pytest.mark.parametrize("leads", [True, False])
async def test_a_disk_that_lost_acknowledged_records_is_not_gone_on_from(world: World, leads: bool) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    await dead(first, log)
    shutil.rmtree(first.folder)
    if leads:
        again = await world.server("one")
        with refused(ErrorCode.LOG_STORAGE):
            await again.open()
    else:
        with refused(ErrorCode.LOG_STORAGE):
            await world.follower("one").upload_local_tail()
    await forget(world, "one")
    assert (await (await world.server("two")).open()).end_offset == 0


async def test_stale_files_that_cannot_be_removed_are_not_taken_for_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.server("one")
    await fill(await first.open(ack_after_upload=True), 3)
    first.stop()
    second = await world.server("two")
    log = await second.open(ack_after_upload=True)
    await fill(log, 3, first=3)
    was = await dead(second, log)
    first.run()
    await first.begin()
    with monkeypatch.context() as patched:
        patched.setattr(files, "remove_tree", lambda folder: None)
        with refused(ErrorCode.LOG_STORAGE):
            await first.open(ack_after_upload=True)
    assert await read_all(await first.open(ack_after_upload=True)) == was


async def test_an_opening_that_a_crash_ended_leaves_no_stale_files_for_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.server("one")
    log = await first.open()
    await fill(log, 3)
    await log.hand_over()
    await log.close()
    second = await world.server("two")
    log = await second.open()
    await fill(log, 5, first=3)
    await log.hand_over()
    was = await read_all(log)
    await first.begin()
    with monkeypatch.context() as patched:
        # Killed as soon as its opening is recorded, before it has touched its files.
        patched.setattr("lakebed.streams.log.remote.opening._open_current", _killed)
        with pytest.raises(KeyboardInterrupt):
            await first.open()
    first.stop()
    again = await world.server("one")
    log = await again.open()
    assert await read_all(log) == was
    assert (await log.append(plain_batch(2, writer_id=7, sequence=8), Acks.ALL)).base_offset == 16


async def _killed(*_: object) -> None:
    raise KeyboardInterrupt


@given(
    st.integers(0, 3),
    st.sampled_from(["", "here"]),
    st.one_of(st.none(), st.integers(0, 3)),
    st.one_of(st.none(), st.integers(0, 20)),
    st.integers(0, 20),
    st.integers(-1, 20),
)
def test_files_are_only_taken_for_the_log_if_they_have_all_that_others_do_not(
    epoch: int, tail_server: str, opened_in: int | None, end: int | None, copied: int, recorded: int
) -> None:
    row = LogRow(epoch, tail_server, "", recorded)
    verdict = classify_local_copy(row, "here", LocalFiles(opened_in, end), copied)
    if verdict is LocalCopy.CURRENT:
        assert end is not None
        assert end >= copied, "no offset is given twice"
        assert tail_server == "here" or opened_in == epoch, "no other server has opened it since"
        assert not tail_server or end >= recorded, "nothing acknowledged is missing"
    assert (verdict is LocalCopy.LOST) <= (tail_server == "here"), "where the store has all, nothing is lost"
    if tail_server == "here":
        assert verdict is not LocalCopy.STALE, "what only this disk has is never removed"


class Story:
    """Servers that lead, are killed and return, in any order and with either promise, over one log.

    A server that opens the log finds every acknowledged record at the offset that it was acknowledged with.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.running: dict[str, Server] = {}
        self.leader: str | None = None
        self.log: RemoteBackedLog | None = None
        self.acknowledged: dict[int, int] = {}
        """The number of each batch, by its offset."""
        self.sent = 0

    async def act(self, action: str, name: str) -> None:
        match action:
            case "kill":
                await self.kill(name)
            case "lead":
                await self.lead(name)
            case "open uploading" | "open on disk":
                await self.open(ack_after_upload=action == "open uploading")
            case "append":
                await self.append()
            case "return" | "return and die":
                await self.upload_local_tail(name, dies=action == "return and die")

    async def kill(self, name: str) -> None:
        server = self.running.pop(name, None)
        if server is not None:
            server.stop()
        if name == self.leader:
            self.leader = self.log = None

    def run(self, name: str) -> Server:
        if name not in self.running:
            self.running[name] = self.world.follower(name)
        return self.running[name]

    async def lead(self, name: str) -> None:
        if self.leader is not None:
            former = self.running[self.leader]
            former.is_leader = False
            if self.log is not None:
                await self.log.close()
            self.log = None
        self.leader = name
        server = self.run(name)
        server.is_leader = True
        await server.begin()

    async def open(self, *, ack_after_upload: bool) -> None:
        if self.leader is None or self.log is not None:
            return
        row = await self.running[self.leader].remotes().rows.find(PLACE.bucket)
        if row.tail_server not in ("", self.leader):
            with refused(ErrorCode.LEADER_NOT_AVAILABLE):
                await self.running[self.leader].open(ack_after_upload=ack_after_upload)
            return
        self.log = await self.running[self.leader].open(ack_after_upload=ack_after_upload)
        await self.check()

    async def append(self) -> None:
        if self.log is not None:
            batch = plain_batch(2, str(self.sent).encode(), writer_id=7, sequence=self.sent)
            appended = await self.log.append(batch, Acks.ALL)
            assert appended.base_offset not in self.acknowledged
            self.acknowledged[appended.base_offset] = self.sent
            self.sent += 1

    async def upload_local_tail(self, name: str, *, dies: bool) -> None:
        if name == self.leader:
            return
        server = self.run(name)
        row = await server.remotes().rows.find(PLACE.bucket)
        if not dies:
            assert await server.upload_local_tail() == (row.tail_server == name)
            return
        self.world.storage.is_away = True
        (outcome,) = await asyncio.gather(server.upload_local_tail(), return_exceptions=True)
        if not isinstance(outcome, bool):  # there was something to upload
            assert isinstance(outcome, FlussError)
            assert outcome.code is ErrorCode.STORAGE
        self.world.storage.is_away = False
        await self.kill(name)

    async def check(self) -> None:
        assert self.log is not None
        found = {batch.base_offset: bytes(batch.body) for batch in iterate_batches(await read_all(self.log))}
        for offset, number in self.acknowledged.items():
            expected = next(iterate_batches(plain_batch(2, str(number).encode(), writer_id=7, sequence=number)))
            assert found[offset] == bytes(expected.body)
        assert found.keys() == self.acknowledged.keys()


_ACTIONS = ("kill", "lead", "open uploading", "open on disk", "append", "append", "return", "return and die")


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(_ACTIONS), st.sampled_from("abc")), min_size=10, max_size=60))
@settings(deadline=None)
def test_servers_that_are_killed_and_return_in_any_order_lose_nothing(actions: list[tuple[str, str]]) -> None:
    async def play(folder: Path) -> None:
        meta = await open_migrated_file(folder / "meta.db")
        story = Story(World(folder, meta))
        try:
            for action, name in actions:
                await story.act(action, name)
            # At last one of them leads, and the others return.
            await story.lead("b")
            for name in "ac":
                await story.upload_local_tail(name, dies=False)
            await story.open(ack_after_upload=True)
            assert story.log is not None
        finally:
            await story.world.end()
            await meta.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
