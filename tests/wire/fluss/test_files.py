"""Fetches return remote segments to clients that can read them, and records to other clients."""

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
from lakebed.streams.seam import Acks, FetchResult, RemoteSegment, TableBucket
from lakebed.wire.fluss import messages_pb2 as pb
from lakebed.wire.fluss.handlers.logs import LogCalls
from lakebed.wire.fluss.handlers.remote_storage import file_calls
from lakebed.wire.fluss.transport.clients import ConnectionClient
from tests.contracts.stream_log import plain_batch
from tests.fixtures.memory_log import MemoryLog
from tests.streams.world import StreamWorld

LOCATION = FileLocation("s3://lake", "lake", "streams", "eu-west-1", "https://s3.example", True)
TABLE = 1


class RemoteLog(MemoryLog):
    """A log with all records in the object store as well."""

    async def locate(self, offset: int, columns: Sequence[int] | None = None) -> FetchResult | None:
        segment = RemoteSegment("first", 0, 2, 100, 7)
        return FetchResult(b"", offset, [segment], 0, "s3://lake/streams/log/fluss/t-1/0")


class TemporaryCredentials:
    """Makes temporary credentials."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.is_available = asyncio.Event()
        self.is_available.set()

    async def make(self, name: str, policy: str) -> Credentials:
        await self.is_available.wait()
        return Credentials("KEY", Secret("secret"), Secret("token"), self._clock.now_ms() + 900_000)


class Rig:
    """A connection, and calls on it."""

    def __init__(
        self, world: StreamWorld, maker: TemporaryCredentials | None, location: FileLocation | None = LOCATION
    ) -> None:
        self.log = RemoteLog()
        self.client = ConnectionClient()
        self.clock = world.clock
        self._caller = world.root._replace(connection=self.client)
        access = FileAccess(world.clock, world.authorizer, world.tables, location, maker)
        ((self._token),) = file_calls(access, world.clock)
        table: Any = SimpleNamespace(path=("fluss", "t"), id=TABLE)

        async def allow(*_: object, **__: object) -> None:
            """Authorize everything, and never wait."""

        async def get(*_: object) -> OpenBucket:
            return OpenBucket(TableBucket(TABLE, None, 0), self.log)

        unused: Any = None
        self._backpressure: Any = SimpleNamespace(acquire_large=allow, wait_until_read=allow)
        self._logs = LogCalls(
            SimpleNamespace(known=lambda _: table),  # type: ignore[arg-type]  # all that a fetch uses
            unused,
            SimpleNamespace(get=get),  # type: ignore[arg-type]
            SimpleNamespace(authorize=allow),  # type: ignore[arg-type]
            unused,
            world.clock,
        )

    async def token(self) -> pb.GetFileSystemSecurityTokenResponse:
        handle: Any = self._token.handle
        response: pb.GetFileSystemSecurityTokenResponse = await handle(
            self._caller, pb.GetFileSystemSecurityTokenRequest()
        )
        return response

    async def fetch(self) -> pb.FetchedBucket:
        request = pb.FetchLogRequest(follower_server_id=-1, max_bytes=1 << 20, min_bytes=1, max_wait_ms=0)
        table = request.tables.add(table_id=TABLE, projection_pushdown_enabled=False)
        table.buckets.add(bucket_id=0, fetch_offset=0, max_fetch_bytes=1 << 20)
        body = memoryview(request.SerializeToString())
        response: Any = await self._logs.fetch(self._caller, body, 0, self._backpressure)
        (bucket,) = pb.FetchLogResponse.FromString(b"".join(response)).tables[0].buckets
        return bucket

    async def fetches_segments(self) -> bool:
        """Whether a fetch returns remote segments instead of records."""
        bucket = await self.fetch()
        assert bool(bucket.records) != bucket.HasField("remote_log_fetch_info")
        return not bucket.records


@pytest.fixture
async def rig(light_world: StreamWorld) -> Rig:
    rig = Rig(light_world, TemporaryCredentials(light_world.clock))
    await rig.log.append(plain_batch(2), Acks.ALL)
    return rig


async def test_credentials_have_the_field_names_of_clients(rig: Rig) -> None:
    response = await rig.token()
    assert response.schema == "s3"
    assert json.loads(response.token) == {
        "access_key_id": "KEY",
        "access_key_secret": "secret",
        "security_token": "token",
    }
    assert response.expiration_time == rig.clock.now_ms() + 900_000
    assert {each.key: each.value for each in response.addition_info} == {
        "fs.s3a.endpoint": "https://s3.example",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
    }


async def test_client_with_credentials_gets_remote_segments(rig: Rig) -> None:
    assert not await rig.fetches_segments(), "the client requested no credentials"
    await rig.token()
    assert await rig.fetches_segments()
    remote = (await rig.fetch()).remote_log_fetch_info
    assert remote.tablet_dir == "s3://lake/streams/log/fluss/t-1/0"
    assert [each.segment_id for each in remote.segments] == ["first"]


async def test_client_with_expired_credentials_gets_records(rig: Rig) -> None:
    await rig.token()
    rig.clock.advance(880)
    assert not await rig.fetches_segments()
    await rig.token()
    assert await rig.fetches_segments(), "the new credentials count, although the old have not expired"


async def test_fetch_waits_for_requested_credentials(light_world: StreamWorld) -> None:
    maker = TemporaryCredentials(light_world.clock)
    rig = Rig(light_world, maker)
    await rig.log.append(plain_batch(2), Acks.ALL)
    maker.is_available.clear()
    requesting = asyncio.create_task(rig.token())
    await asyncio.sleep(0)
    fetching = asyncio.create_task(rig.fetches_segments())
    await asyncio.sleep(0.01)
    assert not fetching.done()
    maker.is_available.set()
    assert await fetching
    await requesting


async def test_fetch_returns_records_if_credentials_take_too_long(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.wire.fluss.transport.clients._GRANT_WAIT_SECONDS", 0.01)
    with rig.client.requesting_grant():
        assert not await rig.fetches_segments()


async def test_client_without_support_for_session_tokens_gets_records(rig: Rig) -> None:
    rig.client.set_software("fluss-rust", "1.0.0")
    response = await rig.token()
    assert (response.schema, response.token) == ("file", b"")
    assert response.expiration_time == rig.clock.now_ms() + 900_000, "the client requests again later"
    assert not await rig.fetches_segments()


async def test_clients_get_remote_segments_without_a_role_for_credentials(light_world: StreamWorld) -> None:
    rig = Rig(light_world, None)
    await rig.log.append(plain_batch(2), Acks.ALL)
    rig.client.set_software("fluss-rust", "1.0.0")
    response = await rig.token()
    assert (response.schema, response.token, response.HasField("expiration_time")) == ("file", b"", False)
    assert await rig.fetches_segments()


async def test_clients_get_records_without_a_file_location(light_world: StreamWorld) -> None:
    rig = Rig(light_world, None, None)
    await rig.log.append(plain_batch(2), Acks.ALL)
    response = await rig.token()
    assert (response.schema, response.token, response.HasField("expiration_time")) == ("file", b"", False)
    assert not await rig.fetches_segments()


async def test_failed_credential_request_leaves_records_readable(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> FileGrant:
        raise FlussError(ErrorCode.SECURITY_TOKEN)

    monkeypatch.setattr(FileAccess, "grant", fail)
    with pytest.raises(FlussError):
        await rig.token()
    assert not await rig.fetches_segments()


async def test_client_reads_files_that_all_its_grants_cover() -> None:
    client = ConnectionClient()
    client.add_grant(FileGrant(frozenset({1, 2}), 900_000), 0)
    client.add_grant(FileGrant(frozenset({1, 3}), 1_200_000), 0)
    assert await client.reads_files(1, 0)
    assert not await client.reads_files(2, 0), "a scanner with the later grant could not read it"
    assert not await client.reads_files(3, 0), "a scanner with the earlier grant could not read it"
    assert await client.reads_files(3, 900_000)
