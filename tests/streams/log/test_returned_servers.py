"""A restarted server uploads its local tail, and the leader continues the log, through crashes at any point."""

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

from .log_cluster import KEEP, LOCATION, LogCluster, Server, fill


async def kill(server: Server, log: RemoteBackedLog) -> bytes:
    """Kill a leader. Returns the records that it acknowledged."""
    expected = await read_all(log)
    server.stop()
    return expected


async def test_leader_continues_a_tail_uploaded_by_a_returned_server(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 30)
    await log.maintain(KEEP)
    await fill(log, 5, first=30)
    expected = await kill(first, log)
    second = await cluster.server("two")
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
        await second.open()
    returned = cluster.follower("one")
    assert await returned.upload_local_tail()
    assert not await returned.upload_local_tail(), "nothing is left to upload"
    log = await second.open()
    assert await read_all(log) == expected
    assert (await log.append(plain_batch(2, writer_id=7, sequence=34), Acks.ALL)).is_duplicate
    assert (await log.append(plain_batch(2, writer_id=7, sequence=35), Acks.ALL)).base_offset == 70
    # And back: the files on the first disk are stale.
    expected = await kill(second, log)
    cluster.follower("two")
    assert await cluster.servers[-1].upload_local_tail()
    await returned.become_leader()
    log = await returned.open()
    assert await read_all(log) == expected


async def test_changelogs_are_uploaded_with_their_stored_form(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open(ReadFormat(rendering=Doubling()))
    log.keep_from = lambda: 0
    await fill(log, 30)
    stored = (await log.read_stored(0, 1 << 20)).records
    await kill(first, log)
    second = await cluster.server("two")
    assert await cluster.follower("one").upload_local_tail(ReadFormat(rendering=Doubling()))
    log = await second.open(ReadFormat(rendering=Doubling()))
    found, offset = b"", 0
    while offset < log.high_watermark:
        fetched = await log.read_stored(offset, 1 << 20)
        found, offset = found + bytes(fetched.records), fetched.next_offset
    assert found.startswith(bytes(stored))
    assert offset == 60


class KilledAtWrite:
    """Simulates a kill: the object store refuses the n-th write and every later one."""

    def __init__(self, cluster: LogCluster, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.writes = 0
        put = cluster.storage.put

        async def dying(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
            self.writes += 1
            cluster.storage.is_down = self.writes >= at
            return await put(key, body, metadata=metadata)

        monkeypatch.setattr(cluster.storage, "put", dying)


@pytest.mark.parametrize("at", range(1, 12))
async def test_upload_interrupted_by_a_kill_is_repeated(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 40)
    expected = await kill(first, log)
    second = await cluster.server("two")
    with monkeypatch.context() as patched:
        KilledAtWrite(cluster, patched, at)
        returned = cluster.follower("one")
        with refused(ErrorCode.STORAGE):
            await returned.upload_local_tail()
        returned.stop()
    cluster.storage.is_down = False
    with refused(ErrorCode.LEADER_NOT_AVAILABLE):
        await second.open()
    assert await cluster.follower("one").upload_local_tail()
    assert await read_all(await second.open()) == expected


async def test_server_that_leads_again_before_its_upload_continues_from_its_disk(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    expected = await kill(first, log)
    await cluster.server("two")
    again = await cluster.server("one")
    log = await again.open()
    assert await read_all(log) == expected
    assert (await log.append(plain_batch(2, writer_id=7, sequence=3), Acks.ALL)).base_offset == 6


async def test_leader_change_during_the_upload_loses_nothing(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 40)
    expected = await kill(first, log)
    second, returned = await cluster.server("two"), cluster.follower("one")
    put, third = cluster.storage.put, list[Server]()

    async def meanwhile(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        if not third:
            third.append(await cluster.server("three"))
            with refused(ErrorCode.LEADER_NOT_AVAILABLE):
                await third[0].open()
        return await put(key, body, metadata=metadata)

    cluster.storage.put = meanwhile  # type: ignore[method-assign]
    assert await returned.upload_local_tail()
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await second.open()
    assert await read_all(await third[0].open()) == expected


async def forget(cluster: LogCluster, server: str) -> None:
    """Do what `lakebed streams forget-server` does."""
    await cluster.meta.transact(
        lambda tx: tx.run("UPDATE stream_logs SET tail_server = '' WHERE tail_server = ?", server)
    )


async def test_upload_of_a_server_forgotten_meanwhile_is_rejected(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 40)
    await kill(first, log)
    second, returned = await cluster.server("two"), cluster.follower("one")
    put, continued = cluster.storage.put, list[RemoteBackedLog]()

    async def meanwhile(key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        written = await put(key, body, metadata=metadata)
        if not continued and key.endswith(".manifest"):
            await forget(cluster, "one")
            continued.append(await second.open())
            await fill(continued[0], 2)
        return written

    cluster.storage.put = meanwhile  # type: ignore[method-assign]
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await returned.upload_local_tail()
    (log,) = continued
    expected = await read_all(log)
    assert offsets(expected) == [(0, 2), (2, 4)]
    await log.hand_over()
    second.stop()
    await returned.become_leader()
    assert await read_all(await returned.open()) == expected


async def test_forgotten_server_that_leads_first_keeps_its_records(cluster: LogCluster) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    expected = await kill(first, log)
    await forget(cluster, "one")
    again = await cluster.server("one")
    assert await read_all(await again.open()) == expected


@pytest.mark.parametrize("is_leader", [True, False])
async def test_disk_that_lost_acknowledged_records_is_rejected(cluster: LogCluster, is_leader: bool) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    await kill(first, log)
    shutil.rmtree(first.folder)
    if is_leader:
        again = await cluster.server("one")
        with refused(ErrorCode.LOG_STORAGE):
            await again.open()
    else:
        with refused(ErrorCode.LOG_STORAGE):
            await cluster.follower("one").upload_local_tail()
    await forget(cluster, "one")
    assert (await (await cluster.server("two")).open()).end_offset == 0


async def test_stale_files_that_cannot_be_removed_are_not_used(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await cluster.server("one")
    await fill(await first.open(ack_after_upload=True), 3)
    first.stop()
    second = await cluster.server("two")
    log = await second.open(ack_after_upload=True)
    await fill(log, 3, first=3)
    expected = await kill(second, log)
    first.start()
    await first.become_leader()
    with monkeypatch.context() as patched:
        patched.setattr(files, "remove_tree", lambda folder: None)
        with refused(ErrorCode.LOG_STORAGE):
            await first.open(ack_after_upload=True)
    assert await read_all(await first.open(ack_after_upload=True)) == expected


async def test_stale_files_are_not_used_after_a_crash_during_opening(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await cluster.server("one")
    log = await first.open()
    await fill(log, 3)
    await log.hand_over()
    await log.close()
    second = await cluster.server("two")
    log = await second.open()
    await fill(log, 5, first=3)
    await log.hand_over()
    expected = await read_all(log)
    await first.become_leader()
    with monkeypatch.context() as patched:
        # Killed after its opening is recorded, before it changes its files.
        patched.setattr("lakebed.streams.log.remote.opening._open_current", _killed)
        with pytest.raises(KeyboardInterrupt):
            await first.open()
    first.stop()
    again = await cluster.server("one")
    log = await again.open()
    assert await read_all(log) == expected
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
def test_local_files_are_current_only_if_they_are_complete(
    epoch: int, tail_server: str, opened_in: int | None, end: int | None, uploaded: int, recorded: int
) -> None:
    row = LogRow(epoch, tail_server, "", recorded)
    verdict = classify_local_copy(row, "here", LocalFiles(opened_in, end), uploaded)
    if verdict is LocalCopy.CURRENT:
        assert end is not None
        assert end >= uploaded, "no offset is assigned twice"
        assert tail_server == "here" or opened_in == epoch, "no other server has opened it since"
        assert not tail_server or end >= recorded, "nothing acknowledged is missing"
    assert (verdict is LocalCopy.LOST) <= (tail_server == "here"), "nothing is lost if the object store is complete"
    if tail_server == "here":
        assert verdict is not LocalCopy.STALE, "a tail that only this disk has is never removed"


class FailoverModel:
    """Servers lead, are killed and return in any order over one log, with and without `ack_after_upload`.

    A server that opens the log finds every acknowledged record at its acknowledged offset.
    """

    def __init__(self, cluster: LogCluster) -> None:
        self.cluster = cluster
        self.running: dict[str, Server] = {}
        self.leader: str | None = None
        self.log: RemoteBackedLog | None = None
        self.acknowledged: dict[int, int] = {}
        """The sequence of each batch, by its offset."""
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
            self.running[name] = self.cluster.follower(name)
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
        await server.become_leader()

    async def open(self, *, ack_after_upload: bool) -> None:
        if self.leader is None or self.log is not None:
            return
        row = await self.running[self.leader].remotes().rows.find(LOCATION.bucket)
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
        row = await server.remotes().rows.find(LOCATION.bucket)
        if not dies:
            assert await server.upload_local_tail() == (row.tail_server == name)
            return
        self.cluster.storage.is_down = True
        (outcome,) = await asyncio.gather(server.upload_local_tail(), return_exceptions=True)
        if not isinstance(outcome, bool):  # the tail was not empty
            assert isinstance(outcome, FlussError)
            assert outcome.code is ErrorCode.STORAGE
        self.cluster.storage.is_down = False
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
def test_servers_killed_and_restarted_in_any_order_lose_nothing(actions: list[tuple[str, str]]) -> None:
    async def play(folder: Path) -> None:
        meta = await open_migrated_file(folder / "meta.db")
        model = FailoverModel(LogCluster(folder, meta))
        try:
            for action, name in actions:
                await model.act(action, name)
            # Finally one server leads and the others return.
            await model.lead("b")
            for name in "ac":
                await model.upload_local_tail(name, dies=False)
            await model.open(ack_after_upload=True)
            assert model.log is not None
        finally:
            await model.cluster.end()
            await meta.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder)))
