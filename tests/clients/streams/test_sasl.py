"""Authentication with SASL PLAIN, and permissions of authenticated users."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import fluss
from lakebed.client.streams.connection import AUTHENTICATE, StreamConnection
from lakebed.client.streams.messages import write_fields
from lakebed.fluss.errors import ErrorCode, FlussError
from tests.clients.streams.serving import StreamServer, config, connected, error_code, make_table, read_records
from tests.clients.users import administer, make_user, user_with_actions
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration

LIST_DATABASES = 1003


@pytest.mark.parametrize(
    ("user", "secret"),
    [
        (ROOT_ACCESS_KEY, "wrong"),
        (ROOT_ACCESS_KEY, ROOT_SECRET_KEY + " "),
        ("NOBODYOFTHATNAME1234", ROOT_SECRET_KEY),
        ("root", ROOT_SECRET_KEY),
    ],
)
async def test_wrong_credentials_are_refused(streams: StreamServer, user: str, secret: str) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(config(streams.address, user, secret))
    assert error_code(raised) == 46


async def test_missing_authentication_is_refused(streams: StreamServer) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": streams.address}))
    assert error_code(raised) == 46


@pytest.mark.parametrize(("user", "secret"), [(ROOT_ACCESS_KEY, ""), ("", ROOT_SECRET_KEY), ("", "")])
async def test_incomplete_credentials_are_refused(streams: StreamServer, user: str, secret: str) -> None:
    with pytest.raises(fluss.FlussError):
        await fluss.FlussConnection.create(config(streams.address, user, secret))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "GSSAPI", "plain-ish"])
async def test_unsupported_sasl_mechanism_is_refused(streams: StreamServer, mechanism: str) -> None:
    others = {"security.sasl.mechanism": mechanism}
    with pytest.raises(fluss.FlussError):
        await fluss.FlussConnection.create(config(streams.address, **others))


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"\0"),
        ("PLAIN", b"\0\0"),
        ("PLAIN", f"\0{ROOT_ACCESS_KEY}\0".encode()),
        ("PLAIN", f"\0\0{ROOT_SECRET_KEY}".encode()),
        ("PLAIN", f"{ROOT_ACCESS_KEY}\0{ROOT_SECRET_KEY}".encode()),
        ("PLAIN", f"\0{ROOT_ACCESS_KEY}\0{ROOT_SECRET_KEY}\0".encode()),
        ("PLAIN", f"\0{ROOT_ACCESS_KEY}\0".encode() + b"\xff\xfe"),
        ("SCRAM-SHA-256", f"\0{ROOT_ACCESS_KEY}\0{ROOT_SECRET_KEY}".encode()),
        ("", f"\0{ROOT_ACCESS_KEY}\0{ROOT_SECRET_KEY}".encode()),
    ],
)
async def test_malformed_sasl_token_is_refused(streams: StreamServer, mechanism: str, token: bytes) -> None:
    def attempt() -> list[ErrorCode]:
        raw = StreamConnection("127.0.0.1", streams.port, "", None)
        found = []
        for key, message in ((AUTHENTICATE, write_fields({1: mechanism, 2: token})), (LIST_DATABASES, b"")):
            with pytest.raises(FlussError) as raised:
                raw.call(key, message)
            found.append(raised.value.code)
            assert ROOT_SECRET_KEY not in str(raised.value)
        raw.close()
        return found

    assert await asyncio.to_thread(attempt) == [ErrorCode.AUTHENTICATE] * 2


async def test_expired_access_key_is_reported_only_with_its_secret(streams: StreamServer) -> None:
    user = make_user(streams.server)
    made = administer(streams.server, "key", "create", user.name, "--expires", "1s")

    async def refusal(secret: str) -> str:
        """The error message once the server refuses the access key."""

        async def connect_until_refused() -> None:
            while True:
                connection = await fluss.FlussConnection.create(config(streams.address, made["access_key"], secret))
                await connection.close()

        with pytest.raises(fluss.FlussError) as raised:
            await connect_until_refused()
        assert error_code(raised) == 46
        return str(raised.value)

    assert "the access key has expired" in await refusal(made["secret_key"])
    assert "wrong user name or secret" in await refusal("wrong")


async def test_user_without_permissions_sees_nothing(streams: StreamServer, connection: Any, table_path: Any) -> None:
    await make_table(connection, table_path)
    unprivileged = make_user(streams.server)
    async with connected(streams, unprivileged.keys.access_key, unprivileged.keys.secret_key) as theirs:
        admin = theirs.get_admin()
        assert await admin.list_databases() == []
        assert not await admin.table_exists(table_path)
        for call in (
            admin.create_database("theirs"),
            admin.get_table_info(table_path),
            admin.drop_table(table_path),
            theirs.get_table(table_path),
        ):
            with pytest.raises(fluss.FlussError) as raised:
                await call
            assert error_code(raised) == 48


async def test_reader_cannot_write(streams: StreamServer, connection: Any, table_path: Any, tmp_path: Path) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.append({"id": 1, "name": "n", "score": 0.0})
    reader = user_with_actions(streams.server, tmp_path, "streams:Read", "streams:Describe")
    # An idempotent writer is refused before its first batch: it requests a writer id first.
    plain = {"writer.enable-idempotence": "false", "writer.acks": "1"}
    async with connected(streams, reader.keys.access_key, reader.keys.secret_key, **plain) as theirs:
        theirs_table = await theirs.get_table(table_path)
        scanner = await theirs_table.new_scan().create_record_batch_log_scanner()
        scanner.subscribe(0, fluss.EARLIEST_OFFSET)
        assert (await scanner.to_arrow()).num_rows == 1
        theirs_writer = theirs_table.new_append().create_writer()
        with pytest.raises(fluss.FlussError) as raised:
            await theirs_writer.append({"id": 2, "name": "n", "score": 0.0}).wait()
        assert error_code(raised) == 48


async def test_revoked_write_permission_takes_effect(
    streams: StreamServer, connection: Any, table_path: Any, tmp_path: Path
) -> None:
    await make_table(connection, table_path)
    user = user_with_actions(streams.server, tmp_path, "streams:*")
    plain = {"writer.enable-idempotence": "false", "writer.acks": "1"}
    async with connected(streams, user.keys.access_key, user.keys.secret_key, **plain) as theirs:
        table = await theirs.get_table(table_path)
        writer = table.new_append().create_writer()
        await writer.append({"id": 0, "name": "n", "score": 0.0}).wait()
        administer(streams.server, "policy", "detach", user.name, "own")
        with pytest.raises(fluss.FlussError) as raised:
            await theirs.get_admin().get_table_info(table_path)
        assert error_code(raised) == 48
        written = 1

        async def write_on() -> None:
            nonlocal written
            while True:
                await writer.append({"id": written, "name": "n", "score": 0.0}).wait()
                written += 1
                await asyncio.sleep(0.05)

        # Permissions of writes are cached for up to two seconds.
        with pytest.raises(fluss.FlussError) as raised:
            await asyncio.wait_for(write_on(), 60)
        assert error_code(raised) == 48
    found = await read_records(await connection.get_table(table_path), written)
    assert [record.row["id"] for record in found] == list(range(written))


async def test_secrets_are_not_logged(streams: StreamServer) -> None:
    user, wrong = make_user(streams.server), "a-secret-that-is-none"
    for name, secret in (
        (ROOT_ACCESS_KEY, wrong),
        (user.keys.access_key, wrong),
        ("NOBODYOFTHATNAME1234", wrong),
        (wrong, user.keys.secret_key),
    ):
        with pytest.raises(fluss.FlussError) as raised:
            await fluss.FlussConnection.create(config(streams.address, name, secret))
        assert secret not in str(raised.value)
    async with connected(streams, user.keys.access_key, user.keys.secret_key):
        pass
    secrets = [wrong.encode(), user.keys.secret_key.encode(), ROOT_SECRET_KEY.encode()]
    assert not any(secret in streams.server.log_text().encode() for secret in secrets)
    for path in streams.server.data.rglob("*"):
        if path.is_file():
            kept = path.read_bytes()
            assert not any(secret in kept for secret in secrets), path


async def test_deleted_access_key_is_refused(streams: StreamServer, tmp_path: Path) -> None:
    user = user_with_actions(streams.server, tmp_path, "streams:*")
    async with connected(streams, user.keys.access_key, user.keys.secret_key) as theirs:
        assert "fluss" in await theirs.get_admin().list_databases()
        administer(streams.server, "key", "delete", user.keys.access_key)
        with pytest.raises(fluss.FlussError) as raised:
            await theirs.get_admin().list_databases()
        assert error_code(raised) == 46
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(config(streams.address, user.keys.access_key, user.keys.secret_key))
    assert error_code(raised) == 46
