from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakebed.core.errors import Unavailable, Undeliverable
from lakebed.events.targets.postgres import PostgresTarget, prepare
from tests.contracts.targets import TargetContract, make_message, shared_messages
from tests.fixtures.brokers.postgres import PostgresService, running_postgres_target

from .documented import documented_change

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[PostgresService]:
    with running_postgres_target() as service:
        yield service


EARLIER = (
    "CREATE TABLE {place} (event_id TEXT PRIMARY KEY, event_name TEXT NOT NULL, key TEXT NOT NULL,"
    " value JSONB NOT NULL, queued_at_ms BIGINT NOT NULL)"
)
"""The table of versions before ids were unique."""


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

    async def test_a_log_of_an_earlier_version_takes_every_event_of_every_target(
        self, service: PostgresService, place: str
    ) -> None:
        async with service.connected() as connection:
            await connection.execute(EARLIER.format(place=place))
            await connection.execute(f"INSERT INTO {place} VALUES ('evt_1', 'n', 'k', '{{}}', 1)")
        messages = shared_messages()
        target = service.target(place)
        await prepare(service.settings(place))
        await target.check()
        for message in (*messages, *messages):
            await target.send(message)
        await target.close()
        async with service.connected() as connection:
            rows = await connection.fetch(f"SELECT event_id FROM {place}")
        kept = [message.deduplication_key for message in messages]
        assert sorted(event_id for (event_id,) in rows) == sorted(["evt_1", *kept])

    async def test_a_log_of_an_earlier_version_can_be_changed_while_a_target_writes_to_it(
        self, service: PostgresService, place: str
    ) -> None:
        before, after = make_message("b/1", target="r:postgres"), make_message("b/2", target="r:postgres")
        async with service.connected() as connection:
            await connection.execute(EARLIER.format(place=place))
            target = service.target(place)
            await target.send(before)
            await connection.execute(documented_change("PostgreSQL", place))
            await target.send(after)
            await target.send(after)
            await target.close()
            rows = await connection.fetch(f"SELECT event_id, target FROM {place}")
        assert {tuple(row) for row in rows} == {(before.deduplication_key, ""), (after.id, "r:postgres")}
        assert len(rows) == 2

    async def test_a_row_that_another_rule_of_the_table_refuses_is_not_counted_as_delivered(
        self, service: PostgresService, place: str
    ) -> None:
        await prepare(service.settings(place))
        async with service.connected() as connection:
            await connection.execute(f"CREATE UNIQUE INDEX ON {place} (key)")
        target = service.target(place)
        await target.send(make_message("b/1"))
        with pytest.raises(Undeliverable):
            await target.send(make_message("b/1"))
        await target.close()

    async def test_a_table_without_the_columns_is_told(self, service: PostgresService, place: str) -> None:
        async with service.connected() as connection:
            await connection.execute(f"CREATE TABLE {place} (other TEXT)")
        target = service.target(place)
        with pytest.raises(Unavailable, match="UndefinedColumnError"):
            await target.check()
        await target.close()
