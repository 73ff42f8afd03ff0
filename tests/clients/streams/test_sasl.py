"""Who may speak, and to what: SASL PLAIN with the server's own identities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fluss
import pytest

from tests.clients.people import administer, make_user, user_who_may
from tests.clients.streams.serving import StreamServer, config, connected, error_code, make_table
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("user", "secret"),
    [
        (ROOT_ACCESS_KEY, "wrong"),
        (ROOT_ACCESS_KEY, ROOT_SECRET_KEY + " "),
        ("NOBODYOFTHATNAME1234", ROOT_SECRET_KEY),
        ("root", ROOT_SECRET_KEY),
    ],
)
async def test_who_has_not_the_secret_is_refused(streams: StreamServer, user: str, secret: str) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(config(streams.address, user, secret))
    assert error_code(raised) == 46


async def test_who_says_nothing_is_refused(streams: StreamServer) -> None:
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": streams.address}))
    assert error_code(raised) == 46


async def test_a_user_without_rights_sees_nothing(streams: StreamServer, connection: Any, table_path: Any) -> None:
    await make_table(connection, table_path)
    nobody = make_user(streams.server)
    async with connected(streams, nobody.keys.access_key, nobody.keys.secret_key) as theirs:
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


async def test_a_reader_does_not_write(streams: StreamServer, connection: Any, table_path: Any, tmp_path: Path) -> None:
    table = await make_table(connection, table_path)
    async with table.new_append().create_writer() as writer:
        writer.append({"id": 1, "name": "n", "score": 0.0})
    reader = user_who_may(streams.server, tmp_path, "streams:Read", "streams:Describe")
    # A writer that numbers its batches is refused before it has one: it asks for an id first.
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


async def test_a_key_that_was_taken_away_opens_nothing(streams: StreamServer, tmp_path: Path) -> None:
    user = user_who_may(streams.server, tmp_path, "streams:*")
    async with connected(streams, user.keys.access_key, user.keys.secret_key) as theirs:
        assert "fluss" in await theirs.get_admin().list_databases()
    administer(streams.server, "key", "delete", user.keys.access_key)
    with pytest.raises(fluss.FlussError) as raised:
        await fluss.FlussConnection.create(config(streams.address, user.keys.access_key, user.keys.secret_key))
    assert error_code(raised) == 46
