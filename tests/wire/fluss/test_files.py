"""Who is told where records are, and who is given them: by what was asked for on the connection before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.secrets import Secret
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.storage.credentials import Credentials
from lakebed.streams.buckets.open_buckets import OpenBucket
from lakebed.streams.file_access import FileAccess, FileGrant, FileLocation
from lakebed.streams.seam import Acks, Fetched, RemoteSegment, TableBucket
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.handlers.remote_storage import file_calls
from lakebed.wire.fluss.transport.clients import ConnectionClient
from tests.contracts.stream_log import plain_batch
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld

PLACE = FileLocation("s3://lake", "lake", "streams", "eu-west-1", "https://s3.example", True)
TABLE = 1


class FarLog(MemoryLog):
    """A log whose records are all in the byte store, too."""

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> Fetched | None:
        segment = RemoteSegment("first", 0, 2, 100, 7)
        return Fetched(b"", offset, [segment], 0, "s3://lake/streams/log/fluss/t-1/0")


class Maker:
    """Keys that end."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def make(self, name: str, policy: str) -> Credentials:
        await self.may_answer.wait()
        return Credentials("KEY", Secret("secret"), Secret("token"), self._clock.now_ms() + 900_000)


class Rig:
    """One connection, and the calls that are made on it."""

    def __init__(self, world: StreamWorld, maker: Maker | None, place: FileLocation | None = PLACE) -> None:
        self.log = FarLog()
        self.client = ConnectionClient()
        self.clock = world.clock
        self._caller = world.root._replace(connection=self.client)
        access = FileAccess(world.clock, world.authorizer, world.tables, place, maker)
        ((self._token),) = file_calls(access, world.clock)
        table: Any = SimpleNamespace(path=("fluss", "t"), id=TABLE)

        async def pass_(*_: object, **__: object) -> None:
            """Nobody is kept out."""

        async def get(*_: object) -> OpenBucket:
            return OpenBucket(TableBucket(TABLE, None, 0), self.log)

        unused: Any = None
        self._room: Any = SimpleNamespace(acquire_large=pass_, wait_until_read=pass_)
        self._logs = LogCalls(
            SimpleNamespace(known=lambda _: table),  # type: ignore[arg-type]  # all that a fetch asks of these
            unused,
            SimpleNamespace(get=get),  # type: ignore[arg-type]
            SimpleNamespace(authorize=pass_),  # type: ignore[arg-type]
            unused,
            world.clock,
        )

    async def token(self) -> pb.GetFileSystemSecurityTokenResponse:
        answer: Any = self._token.answer
        found: pb.GetFileSystemSecurityTokenResponse = await answer(
            self._caller, pb.GetFileSystemSecurityTokenRequest()
        )
        return found

    async def fetch(self) -> pb.FetchedBucket:
        request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, min_bytes=1, max_wait_ms=0)
        asked = request.tables.add(table_id=TABLE, projection_pushdown_enabled=False)
        asked.buckets.add(bucket_id=0, fetch_offset=0, max_fetch_bytes=1 << 20)
        body = memoryview(request.SerializeToString())
        answer: Any = await self._logs.fetch(self._caller, body, 0, self._room)
        (bucket,) = pb.FetchLogResponse.FromString(b"".join(answer)).tables[0].buckets
        return bucket

    async def is_sent(self) -> bool:
        """Whether the reader is told where records are, in place of the records."""
        bucket = await self.fetch()
        assert bool(bucket.records) != bucket.HasField("remote_log_fetch_info")
        return not bucket.records


@pytest.fixture
async def rig(light_world: StreamWorld) -> Rig:
    made = Rig(light_world, Maker(light_world.clock))
    await made.log.append(plain_batch(2), Acks.ALL)
    return made


async def test_keys_are_told_in_the_words_of_clients(rig: Rig) -> None:
    answer = await rig.token()
    assert answer.schema == "s3"
    assert json.loads(answer.token) == {
        "access_key_id": "KEY",
        "access_key_secret": "secret",
        "security_token": "token",
    }
    assert answer.expiration_time == rig.clock.now_ms() + 900_000
    assert {each.key: each.value for each in answer.addition_info} == {
        "fs.s3a.endpoint": "https://s3.example",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
    }


async def test_who_was_given_keys_is_sent_to_the_byte_store(rig: Rig) -> None:
    assert not await rig.is_sent(), "nobody is sent who did not ask"
    await rig.token()
    assert await rig.is_sent()
    remote = (await rig.fetch()).remote_log_fetch_info
    assert remote.tablet_dir == "s3://lake/streams/log/fluss/t-1/0"
    assert [each.segment_id for each in remote.segments] == ["first"]


async def test_nobody_is_sent_with_keys_that_are_over(rig: Rig) -> None:
    await rig.token()
    rig.clock.advance(880)
    assert not await rig.is_sent()
    await rig.token()
    assert await rig.is_sent(), "the new ones, though the old are not over"


async def test_records_that_are_asked_for_with_keys_wait_for_the_keys(light_world: StreamWorld) -> None:
    maker = Maker(light_world.clock)
    rig = Rig(light_world, maker)
    await rig.log.append(plain_batch(2), Acks.ALL)
    maker.may_answer.clear()
    asking = asyncio.create_task(rig.token())
    await asyncio.sleep(0)
    fetching = asyncio.create_task(rig.is_sent())
    await asyncio.sleep(0.01)
    assert not fetching.done()
    maker.may_answer.set()
    assert await fetching
    await asking


async def test_records_do_not_wait_for_keys_that_do_not_come(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.wire.fluss.transport.clients._PATIENCE_SECONDS", 0.01)
    with rig.client.asking():
        assert not await rig.is_sent()


async def test_a_client_that_loses_session_tokens_is_read_for(rig: Rig) -> None:
    rig.client.is_called("fluss-rust", "1.0.0")
    answer = await rig.token()
    assert (answer.schema, answer.token) == ("file", b"")
    assert answer.expiration_time == rig.clock.now_ms() + 900_000, "it asks again, should that change"
    assert not await rig.is_sent()


async def test_without_a_role_all_who_ask_are_sent(light_world: StreamWorld) -> None:
    rig = Rig(light_world, None)
    await rig.log.append(plain_batch(2), Acks.ALL)
    rig.client.is_called("fluss-rust", "1.0.0")
    answer = await rig.token()
    assert (answer.schema, answer.token, answer.HasField("expiration_time")) == ("file", b"", False)
    assert await rig.is_sent()


async def test_without_an_address_all_are_read_for(light_world: StreamWorld) -> None:
    rig = Rig(light_world, None, None)
    await rig.log.append(plain_batch(2), Acks.ALL)
    answer = await rig.token()
    assert (answer.schema, answer.token, answer.HasField("expiration_time")) == ("file", b"", False)
    assert not await rig.is_sent()


async def test_keys_that_cannot_be_had_leave_records_readable(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> FileGrant:
        raise FlussError(ErrorCode.SECURITY_TOKEN)

    monkeypatch.setattr(FileAccess, "grant", fail)
    with pytest.raises(FlussError):
        await rig.token()
    assert not await rig.is_sent()


async def test_of_several_grants_all_count() -> None:
    client = ConnectionClient()
    client.take(FileGrant(frozenset({1, 2}), 900_000), 0)
    client.take(FileGrant(frozenset({1, 3}), 1_200_000), 0)
    assert await client.reads_files(1, 0)
    assert not await client.reads_files(2, 0), "a scanner that asked later could not read it"
    assert not await client.reads_files(3, 0), "nor one that asked before"
    assert await client.reads_files(3, 900_000)
