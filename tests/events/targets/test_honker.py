from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import InvalidInput, Undeliverable
from lakebed.events.targets.registry import load_target_type
from lakebed.events.targets.seam import EventMessage
from tests.contracts.targets import TargetContract, make_message, shared_messages
from tests.fixtures.brokers.honker import HonkerService, honker_folder
from tests.fixtures.brokers.service import receive_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[HonkerService]:
    with honker_folder() as service:
        yield service


EARLIER = "CREATE TABLE lakebed_delivered (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE)"
"""The deduplication table of versions without deployment ids."""


class TestHonker(TargetContract):
    """The contract, on a stream."""

    async def test_file_of_an_earlier_version_accepts_reused_numbers(
        self, service: HonkerService, destination: str
    ) -> None:
        import honker

        path = service.home / f"{destination}.db"
        database = honker.open(str(path))
        with database.transaction() as transaction:
            transaction.execute(EARLIER)
            transaction.execute("INSERT INTO lakebed_delivered (id) VALUES ('evt_1')")
        database.close()
        messages = shared_messages()
        target = service.create_target(msgspec.structs.replace(service.settings(destination), path=str(path)))
        for message in (*messages, *messages):
            await target.send(message)
        await target.close()
        database = honker.open(str(path))
        rows = database.query("SELECT payload FROM _honker_stream WHERE topic = ? ORDER BY offset", [destination])
        database.close()
        assert [json.loads(row["payload"]) for row in rows] == [json.loads(message.body) for message in messages]

    async def test_busy_target_does_not_displace_ids_of_another(
        self, service: HonkerService, destination: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from lakebed.events.targets import honker as module

        monkeypatch.setattr(module, "_MAX_IDS", 2)
        quiet = make_message("b/quiet", target=f"{destination}-quiet:honker")
        target = service.target(destination)
        await target.send(quiet)
        for number in range(4):
            await target.send(make_message(f"b/{number}", target=f"{destination}-loud:honker"))
        await target.send(quiet)
        await target.close()
        async with service.listening(destination) as listener:
            assert [received.marker for received in await listener.received()].count(quiet.id) == 1
        import honker

        database = honker.open(str(service.path))
        kept = "SELECT count(*) AS count FROM lakebed_deliveries WHERE target = ?"
        (loud,) = database.query(kept, [f"{destination}-loud:honker"])
        database.close()
        assert loud["count"] == 2

    async def test_queue_delivers_to_a_worker_once(self, service: HonkerService, destination: str) -> None:
        message, target = make_message(), service.create_target(service.settings(destination, "queue"))
        await target.send(message)
        await target.send(message)
        await target.close()
        import honker

        database = honker.open(str(service.path))
        jobs = database.queue(destination).claim_batch("worker", 10)
        database.close()
        assert [job.payload for job in jobs] == [json.loads(message.body)]

    async def test_channel_is_notified(self, service: HonkerService, destination: str) -> None:
        message, target = make_message(), service.create_target(service.settings(destination, "notify"))
        await target.send(message)
        await target.close()
        import honker

        database = honker.open(str(service.path))
        rows = database.query("SELECT payload FROM _honker_notifications WHERE channel = ?", [destination])
        database.close()
        assert [json.loads(row["payload"]) for row in rows] == [json.loads(message.body)]

    async def test_replaced_file_is_reopened(self, service: HonkerService, destination: str) -> None:
        target = service.target(destination)
        await target.send(make_message())
        for path in service.home.iterdir():
            path.rename(service.folder / f"old-{path.name}")
        message = make_message()
        await target.send(message)
        await target.check()
        async with service.listening(destination) as listener:
            assert [received.marker for received in await receive_until(listener, {message.id})] == [message.id]
        await target.close()

    async def test_invalid_json_is_undeliverable(self, service: HonkerService, destination: str) -> None:
        target = service.target(destination)
        with pytest.raises(Undeliverable):
            await target.send(EventMessage("evt_1", "s3:ObjectCreated:Put", "b/k", False, 0, b"{", "application/json"))
        await target.close()


def test_type_is_found_by_name(service: HonkerService) -> None:
    kind = load_target_type("honker")
    assert (kind.name, kind.settings) == ("honker", type(service.settings("p")))


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"path": "events.db"}, "path"),
        ({"name": ""}, "name"),
        ({"format": "x"}, "format"),
        ({"max_bytes": 0}, "max_bytes"),
    ],
)
def test_invalid_settings_are_rejected(service: HonkerService, change: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        msgspec.structs.replace(service.settings("p"), **change).validate()
    assert raised.value.argument == argument
