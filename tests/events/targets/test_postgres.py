from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.postgres import PostgresTarget, prepare
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.postgres import PostgresService, running_postgres_target

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[PostgresService]:
    with running_postgres_target() as service:
        yield service


class TestPostgres(TargetContract):
    """The contract, on a table with a row an event."""

    async def test_a_mirror_has_what_there_is(self, service: PostgresService, place: str) -> None:
        settings = service.settings(place, format="namespace")
        await prepare(settings)
        target = PostgresTarget(settings)
        first, second, other = make_message("b/one"), make_message("b/one"), make_message("b/two")
        for message in (
            first,
            other,
            second,
            make_message("b/two", is_removal=True),
            make_message("b/2", is_removal=True),
        ):
            await target.send(message)
        await target.check()
        await target.close()
        async with service.connected() as connection:
            rows = await connection.fetch(f"SELECT key, value FROM {place}")
        assert [(key, json.loads(value)) for key, value in rows] == [("b/one", json.loads(second.body))]

    async def test_a_row_tells_what_happened_to_what_and_when(self, service: PostgresService, place: str) -> None:
        message, target = make_message(), service.target(place)
        async with service.listening(place), service.connected() as connection:
            await target.send(message)
            (row,) = await connection.fetch(f"SELECT event_id, event_name, key, queued_at_ms FROM {place}")
        await target.close()
        assert tuple(row) == (message.id, message.name, message.key, message.occurred_ms)

    async def test_a_key_that_no_index_holds_is_undeliverable(self, service: PostgresService, place: str) -> None:
        settings = service.settings(place, format="namespace")
        await prepare(settings)
        target = PostgresTarget(settings)
        with pytest.raises(Undeliverable):
            await target.send(service.too_long_a_key(make_message()))
        await target.close()

    async def test_a_table_that_is_there_is_taken_as_it_is(self, service: PostgresService, place: str) -> None:
        async with service.connected() as connection:
            await connection.execute(f"CREATE TABLE {place} (key TEXT UNIQUE, value JSONB, more INT DEFAULT 1)")
        settings = service.settings(place, format="namespace")
        await prepare(settings)
        await prepare(settings)
        target = PostgresTarget(settings)
        await target.check()
        await target.send(make_message())
        await target.close()

    async def test_a_table_without_the_columns_is_told(self, service: PostgresService, place: str) -> None:
        async with service.connected() as connection:
            await connection.execute(f"CREATE TABLE {place} (other TEXT)")
        target = service.target(place)
        with pytest.raises(Unavailable, match="UndefinedColumnError"):
            await target.check()
        await target.close()
