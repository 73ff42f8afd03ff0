from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pymysql.constants import CLIENT

from lakebed.core.errors import Unavailable
from lakebed.events.targets.mysql import MysqlSettings, MysqlTarget, prepare
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.mysql import MysqlService, running_mysql

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[MysqlService]:
    with running_mysql() as service:
        yield service


class TestMysql(TargetContract):
    """The contract, on a table with a row an event."""

    async def test_a_mirror_has_what_there_is(self, service: MysqlService, place: str) -> None:
        settings = service.settings(place, format="namespace")
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
        rows = await service.rows(f"SELECT key_name, value FROM {place}")
        assert [(key, json.loads(value)) for key, value in rows] == [("b/one", json.loads(second.body))]

    async def test_a_row_tells_when_it_happened(self, service: MysqlService, place: str) -> None:
        message, target = make_message(), service.target(place)
        async with service.listening(place):
            await target.send(message)
        await target.close()
        ((when,),) = await service.rows(f"SELECT event_time FROM {place}")
        assert when.replace(tzinfo=UTC) == datetime.fromtimestamp(message.occurred_ms / 1000, UTC)

    async def test_a_table_without_the_columns_is_told(self, service: MysqlService, place: str) -> None:
        await service.rows(f"CREATE TABLE {place} (other TEXT)")
        target = service.target(place)
        with pytest.raises(Unavailable, match="Unknown column"):
            await target.check()
        await target.close()

    async def test_nothing_is_told_to_a_server_without_tls_by_who_wants_it(
        self, service: MysqlService, place: str
    ) -> None:
        told = b""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal told
            writer.write(_GREETING_WITHOUT_TLS)
            told += await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = MysqlSettings(dsn_string=f"alice:password@tcp(127.0.0.1:{port})/events?tls=true")
        settings.validate()
        target = MysqlTarget(settings, deadline_seconds=5)
        with pytest.raises(Unavailable, match="does not secure"):
            await target.send(make_message())
        await target.close()
        server.close()
        await server.wait_closed()
        assert told == b""


def _greeting(capabilities: int) -> bytes:
    """The first packet of a server, protocol 10."""
    body = b"\x0a8.0.36\0" + struct.pack("<I", 1) + b"saltsalt\0"
    body += struct.pack("<HBHHB", capabilities & 0xFFFF, 33, 2, capabilities >> 16, 21)
    body += b"\0" * 10 + b"saltsaltsalt\0" + b"mysql_native_password\0"
    return struct.pack("<I", len(body))[:3] + b"\0" + body


_GREETING_WITHOUT_TLS = _greeting(0x000FFFFF & ~CLIENT.SSL)
