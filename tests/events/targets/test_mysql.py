from __future__ import annotations

import asyncio
import dataclasses
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pymysql.constants import CLIENT

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.mysql import MysqlSettings, MysqlTarget, prepare
from tests.contracts.targets import TargetContract, make_message, shared_messages
from tests.fixtures.brokers.mysql import MysqlService, running_mysql

from .documented import documented_change

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[MysqlService]:
    with running_mysql() as service:
        yield service


EARLIER = (
    "CREATE TABLE {destination} (event_id VARCHAR(255) CHARACTER SET ascii NOT NULL PRIMARY KEY,"
    " event_time DATETIME(6) NOT NULL, event_data JSON NOT NULL) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
)
"""The table of versions without deployment ids."""


class TestMysql(TargetContract):
    """The contract, with the format `access`."""

    async def test_mirror_has_the_current_objects(self, service: MysqlService, destination: str) -> None:
        settings = service.settings(destination, format="namespace")
        await prepare(settings)
        await prepare(settings)
        target = MysqlTarget(settings)
        first, second, other = make_message("b/one"), make_message("b/one"), make_message("b/ONE")
        for message in (
            first,
            other,
            second,
            make_message("b/ONE", is_removal=True),
            make_message("b/2", is_removal=True),
        ):
            await target.send(message)
        await target.check()
        await target.close()
        rows = await service.rows(f"SELECT key_name, value FROM {destination}")
        assert [(key, json.loads(value)) for key, value in rows] == [("b/one", json.loads(second.body))]

    async def test_row_has_the_event_time(self, service: MysqlService, destination: str) -> None:
        message, target = make_message(), service.target(destination)
        async with service.listening(destination):
            await target.send(message)
        await target.close()
        ((when,),) = await service.rows(f"SELECT event_time FROM {destination}")
        assert when.replace(tzinfo=UTC) == datetime.fromtimestamp(message.occurred_ms / 1000, UTC)

    async def test_table_of_an_earlier_version_stores_every_event_of_every_target(
        self, service: MysqlService, destination: str
    ) -> None:
        await service.rows(EARLIER.format(destination=destination))
        await service.rows(f"INSERT INTO {destination} VALUES ('evt_1', now(), '{{}}')")
        messages = shared_messages()
        target = service.target(destination)
        await prepare(service.settings(destination))
        await target.check()
        for message in (*messages, *messages):
            await target.send(message)
        await target.close()
        rows = await service.rows(f"SELECT event_id FROM {destination}")
        kept = [message.deduplication_key for message in messages]
        assert sorted(event_id for (event_id,) in rows) == sorted(["evt_1", *kept])

    async def test_table_of_an_earlier_version_can_be_migrated_during_delivery(
        self, service: MysqlService, destination: str
    ) -> None:
        before, after = make_message("b/1", target="r:mysql"), make_message("b/2", target="r:mysql")
        await service.rows(EARLIER.format(destination=destination))
        target = service.target(destination)
        await target.send(before)
        await service.rows(documented_change("MySQL", destination))
        await target.send(after)
        await target.send(after)
        await target.close()
        rows = await service.rows(f"SELECT event_id, target FROM {destination}")
        assert sorted(rows) == sorted([(before.deduplication_key, ""), (after.id, "r:mysql")])

    @pytest.mark.parametrize("is_earlier", [False, True])
    async def test_targets_that_differ_by_case_have_separate_rows(
        self, service: MysqlService, destination: str, is_earlier: bool
    ) -> None:
        if is_earlier:
            await service.rows(EARLIER.format(destination=destination))
        await prepare(service.settings(destination))
        upper = make_message("b/1", target="R:mysql")
        target = service.target(destination)
        await target.send(upper)
        if is_earlier:
            # The primary key ignores case: the duplicate is reported, not skipped.
            with pytest.raises(Undeliverable, match="Duplicate entry"):
                await target.send(dataclasses.replace(upper, target="r:mysql"))
        else:
            await target.send(dataclasses.replace(upper, target="r:mysql"))
        await target.close()
        assert len(await service.rows(f"SELECT event_id FROM {destination}")) == (1 if is_earlier else 2)

    async def test_violation_of_another_unique_key_is_undeliverable(
        self, service: MysqlService, destination: str
    ) -> None:
        await prepare(service.settings(destination))
        await service.rows(f"CREATE UNIQUE INDEX moments ON {destination} (event_time)")
        target = service.target(destination)
        await target.send(make_message("b/1"))
        with pytest.raises(Undeliverable, match="Duplicate entry"):
            await target.send(make_message("b/2"))
        await target.close()

    async def test_check_fails_for_table_without_the_columns(self, service: MysqlService, destination: str) -> None:
        await service.rows(f"CREATE TABLE {destination} (other TEXT)")
        target = service.target(destination)
        with pytest.raises(Unavailable, match="Unknown column"):
            await target.check()
        await target.close()

    async def test_server_without_tls_receives_no_credentials(self, service: MysqlService, destination: str) -> None:
        sent = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(_GREETING_WITHOUT_TLS)
            sent += await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = MysqlSettings(dsn_string=f"alice:password@tcp(127.0.0.1:{port})/events?tls=true")
        settings.validate()
        target = MysqlTarget(settings, deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not offer TLS"):
            await target.send(make_message())
        await target.close()
        server.close()
        await server.wait_closed()
        assert sent == b""


def _greeting(capabilities: int) -> bytes:
    """The server's initial handshake packet, protocol 10."""
    body = b"\x0a8.0.36\0" + struct.pack("<I", 1) + b"saltsalt\0"
    body += struct.pack("<HBHHB", capabilities & 0xFFFF, 33, 2, capabilities >> 16, 21)
    body += b"\0" * 10 + b"saltsaltsalt\0" + b"mysql_native_password\0"
    return struct.pack("<I", len(body))[:3] + b"\0" + body


_GREETING_WITHOUT_TLS = _greeting(0x000FFFFF & ~CLIENT.SSL)
