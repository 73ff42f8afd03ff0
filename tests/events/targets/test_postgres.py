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
    "CREATE TABLE {destination} (event_id TEXT PRIMARY KEY, event_name TEXT NOT NULL, key TEXT NOT NULL,"
    " value JSONB NOT NULL, queued_at_ms BIGINT NOT NULL)"
)
"""The table of versions without deployment ids."""


class TestPostgres(TargetContract):
    """The contract, with the format `access`."""

    async def test_mirror_has_the_current_objects(self, service: PostgresService, destination: str) -> None:
        settings = service.settings(destination, format="namespace")
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
            rows = await connection.fetch(f"SELECT key, value FROM {destination}")
        assert [(key, json.loads(value)) for key, value in rows] == [("b/one", json.loads(second.body))]

    async def test_row_has_event_name_key_and_time(self, service: PostgresService, destination: str) -> None:
        message, target = make_message(), service.target(destination)
        async with service.listening(destination), service.connected() as connection:
            await target.send(message)
            (row,) = await connection.fetch(f"SELECT event_id, event_name, key, queued_at_ms FROM {destination}")
        await target.close()
        assert tuple(row) == (message.id, message.name, message.key, message.occurred_ms)

    async def test_key_over_the_index_limit_is_undeliverable(self, service: PostgresService, destination: str) -> None:
        settings = service.settings(destination, format="namespace")
        await prepare(settings)
        target = PostgresTarget(settings)
        with pytest.raises(Undeliverable):
            await target.send(service.too_long_a_key(make_message()))
        await target.close()

    async def test_existing_table_is_used_unchanged(self, service: PostgresService, destination: str) -> None:
        async with service.connected() as connection:
            await connection.execute(f"CREATE TABLE {destination} (key TEXT UNIQUE, value JSONB, more INT DEFAULT 1)")
        settings = service.settings(destination, format="namespace")
        await prepare(settings)
        await prepare(settings)
        target = PostgresTarget(settings)
        await target.check()
        await target.send(make_message())
        await target.close()

    async def test_table_of_an_earlier_version_stores_every_event_of_every_target(
        self, service: PostgresService, destination: str
    ) -> None:
        async with service.connected() as connection:
            await connection.execute(EARLIER.format(destination=destination))
            await connection.execute(f"INSERT INTO {destination} VALUES ('evt_1', 'n', 'k', '{{}}', 1)")
        messages = shared_messages()
        target = service.target(destination)
        await prepare(service.settings(destination))
        await target.check()
        for message in (*messages, *messages):
            await target.send(message)
        await target.close()
        async with service.connected() as connection:
            rows = await connection.fetch(f"SELECT event_id FROM {destination}")
        kept = [message.deduplication_key for message in messages]
        assert sorted(event_id for (event_id,) in rows) == sorted(["evt_1", *kept])

    async def test_table_of_an_earlier_version_can_be_migrated_during_delivery(
        self, service: PostgresService, destination: str
    ) -> None:
        before, after = make_message("b/1", target="r:postgres"), make_message("b/2", target="r:postgres")
        async with service.connected() as connection:
            await connection.execute(EARLIER.format(destination=destination))
            target = service.target(destination)
            await target.send(before)
            await connection.execute(documented_change("PostgreSQL", destination))
            await target.send(after)
            await target.send(after)
            await target.close()
            rows = await connection.fetch(f"SELECT event_id, target FROM {destination}")
        assert {tuple(row) for row in rows} == {(before.deduplication_key, ""), (after.id, "r:postgres")}
        assert len(rows) == 2

    async def test_violation_of_another_unique_key_is_undeliverable(
        self, service: PostgresService, destination: str
    ) -> None:
        await prepare(service.settings(destination))
        async with service.connected() as connection:
            await connection.execute(f"CREATE UNIQUE INDEX ON {destination} (key)")
        target = service.target(destination)
        await target.send(make_message("b/1"))
        with pytest.raises(Undeliverable):
            await target.send(make_message("b/1"))
        await target.close()

    async def test_check_fails_for_table_without_the_columns(self, service: PostgresService, destination: str) -> None:
        async with service.connected() as connection:
            await connection.execute(f"CREATE TABLE {destination} (other TEXT)")
        target = service.target(destination)
        with pytest.raises(Unavailable, match="UndefinedColumnError"):
            await target.check()
        await target.close()
