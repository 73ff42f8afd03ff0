"""Clients that read old records from the object store directly: with which credentials, and their scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fluss
from lakebed.client.streams.connection import StreamConnection
from lakebed.client.streams.messages import messages, number, text
from lakebed.core.secrets import Secret
from tests.clients.boto import Keys
from tests.clients.boto import connected as s3_connected
from tests.clients.streams.remote_files import (
    ADDRESS,
    BUCKET,
    PREFIX,
    ROWS,
    TABLE,
    FileStore,
    file_store,
    fill,
    reader_of,
    serving_from,
)
from tests.clients.streams.serving import StreamServer, connected, read_records
from tests.clients.users import User, user_with_actions

pytestmark = [pytest.mark.integration, pytest.mark.slow]

_TOKEN_CALL = 1025


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileStore]:
    with file_store(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture(scope="module")
def data(store: FileStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a server whose old records are only in the object store."""
    folder = tmp_path_factory.mktemp("home") / "data"
    asyncio.run(fill(store, folder, "secrets"))
    return folder


async def scan(streams: StreamServer) -> list[int]:
    """The ids of all rows of the table, read by pyfluss from the start."""
    async with connected(streams) as connection:
        table = await connection.get_table(fluss.TablePath("fluss", TABLE))
        found = await read_records(table, ROWS)
    assert [record.offset for record in found] == list(range(ROWS))
    return [record.row["id"] for record in found]


async def test_pyfluss_reads_segments_with_its_own_credentials(
    store: FileStore, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = user_with_actions(store.server, tmp_path, "s3:GetObject")
    with serving_from(store, data, ADDRESS) as streams:
        before = len(store.reads())
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", reader.keys.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", reader.keys.secret_key)
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.server.endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        assert await scan(streams) == list(range(ROWS))
        bodies = [each for each in store.reads()[before:] if each.path.endswith(".log") and each.method == "GET"]
        own = {each.path for each in bodies if each.principal == reader.name and each.status in (200, 206)}
        # pyfluss requests records and credentials concurrently, so the server still returns the first records.
        assert len(own) > 10


async def test_server_reads_for_pyfluss_if_credentials_are_temporary(store: FileStore, data: Path) -> None:
    """pyfluss does not send the session token, so the store would refuse it; the server reads for it."""
    with serving_from(store, data, ADDRESS, f"streams.remote_role={store.role}") as streams:
        before = len(store.reads())
        assert await scan(streams) == list(range(ROWS))
        read = [each for each in store.reads()[before:] if each.path.endswith(".log")]
        assert {each.principal for each in read} == {store.owner.name}
        assert {each.method for each in read} == {"GET"}, "clients request the size of a file before they read it"


async def test_vended_credentials_are_limited_to_the_tables_of_the_reader(
    store: FileStore, data: Path, tmp_path: Path
) -> None:
    with serving_from(store, data, ADDRESS, f"streams.remote_role={store.role}") as streams:
        reader = reader_of(streams, tmp_path, TABLE)
        schema, keys, addition = request_credentials(streams, reader)
        assert schema == "s3"
        assert addition == {
            "fs.s3a.endpoint": store.server.endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }
        with s3_connected(store.server) as s3:
            listed = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{PREFIX}/streams/log/fluss/")["Contents"]
            s3.put_object(Bucket=BUCKET, Key=f"{PREFIX}/blobs/object", Body=b"of the object store")
        segments = [each["Key"] for each in listed if each["Key"].endswith(".log")]
        own = next(key for key in segments if f"/{TABLE}-" in key)
        other = next(key for key in segments if "/secrets-" in key)
        with s3_connected(store.server, keys) as s3:
            assert s3.get_object(Bucket=BUCKET, Key=own)["Body"].read()
            for method, arguments in (
                ("get_object", {"Key": other}),
                ("get_object", {"Key": f"{PREFIX}/blobs/object"}),
                ("put_object", {"Key": own, "Body": b"another"}),
                ("put_object", {"Key": own.replace(".log", ".new"), "Body": b"new"}),
                ("delete_object", {"Key": own}),
                ("list_objects_v2", {}),
            ):
                with pytest.raises(s3.exceptions.ClientError) as raised:
                    getattr(s3, method)(Bucket=BUCKET, **arguments)
                assert raised.value.response["Error"]["Code"] == "AccessDenied"
        assert keys is not None
        with s3_connected(store.server, Keys(keys.access_key, keys.secret_key)) as s3:
            with pytest.raises(s3.exceptions.ClientError) as raised:
                s3.get_object(Bucket=BUCKET, Key=own)
            assert raised.value.response["Error"]["Code"] == "InvalidAccessKeyId", "the error without a session token"
        assert keys.access_key != store.owner.keys.access_key, "the server's own key is not vended"
        assert request_credentials(streams, reader)[1] == keys, "vended credentials are cached"


async def test_user_without_readable_tables_gets_no_credentials(store: FileStore, data: Path, tmp_path: Path) -> None:
    with serving_from(store, data, ADDRESS, f"streams.remote_role={store.role}") as streams:
        assert request_credentials(streams, reader_of(streams, tmp_path, "nothing"))[:2] == ("file", None)


async def test_server_reads_for_clients_while_credentials_are_unavailable(store: FileStore, data: Path) -> None:
    role = store.role.replace(store.role.split(":")[4], "999999999999")
    with serving_from(store, data, ADDRESS, f"streams.remote_role={role}") as streams:
        with pytest.raises(Exception, match="file credentials are unavailable"):
            request_credentials(streams, User("root", "", Keys(streams.server.access_key, streams.server.secret_key)))
        assert await scan(streams) == list(range(ROWS))


def request_credentials(streams: StreamServer, user: User) -> tuple[str, Keys | None, dict[str, str]]:
    """Request credentials for remote files, as a client that supports them."""
    secret = Secret(user.keys.secret_key)
    connection = StreamConnection("127.0.0.1", streams.port, user.keys.access_key, secret)
    try:
        answer: Any = connection.call(_TOKEN_CALL, b"")
    finally:
        connection.close()
    addition = {text(each, 1).decode(): text(each, 2).decode() for each in messages(answer, 4)}
    body = bytes(text(answer, 2))
    if not body:
        return text(answer, 1).decode(), None, addition
    token = json.loads(body)
    assert number(answer, 3) > 0
    keys = Keys(token["access_key_id"], token["access_key_secret"], token["security_token"])
    return text(answer, 1).decode(), keys, addition
