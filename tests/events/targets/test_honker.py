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
from tests.fixtures.brokers.service import heard_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[HonkerService]:
    with honker_folder() as service:
        yield service


EARLIER = "CREATE TABLE lakebed_delivered (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE)"
"""What versions before ids were unique kept them in."""


class TestHonker(TargetContract):
    """The contract, on a stream."""

    async def test_a_file_of_an_earlier_version_takes_events_that_have_the_numbers_of_others_before(
        self, service: HonkerService, place: str
    ) -> None:
        import honker

        path = service.home / f"{place}.db"
        database = honker.open(str(path))
        with database.transaction() as transaction:
            transaction.execute(EARLIER)
            transaction.execute("INSERT INTO lakebed_delivered (id) VALUES ('evt_1')")
        database.close()
        messages = shared_messages()
        target = service.made(msgspec.structs.replace(service.settings(place), path=str(path)))
        for message in (*messages, *messages):
            await target.send(message)
        await target.close()
        database = honker.open(str(path))
        rows = database.query("SELECT payload FROM _honker_stream WHERE topic = ? ORDER BY offset", [place])
        database.close()
        assert [json.loads(row["payload"]) for row in rows] == [json.loads(message.body) for message in messages]

    async def test_a_target_that_sends_much_does_not_drop_the_ids_of_another(
        self, service: HonkerService, place: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from lakebed.events.targets import honker as module

        monkeypatch.setattr(module, "_KEPT", 2)
        quiet = make_message("b/quiet", target=f"{place}-quiet:honker")
        target = service.target(place)
        await target.send(quiet)
        for number in range(4):
            await target.send(make_message(f"b/{number}", target=f"{place}-loud:honker"))
        await target.send(quiet)
        await target.close()
        async with service.listening(place) as ear:
            assert [heard.marker for heard in await ear.heard()].count(quiet.id) == 1
        import honker

        database = honker.open(str(service.path))
        kept = "SELECT count(*) AS count FROM lakebed_deliveries WHERE target = ?"
        (loud,) = database.query(kept, [f"{place}-loud:honker"])
        database.close()
        assert loud["count"] == 2

    async def test_a_queue_hands_it_to_a_worker(self, service: HonkerService, place: str) -> None:
        message, target = make_message(), service.made(service.settings(place, "queue"))
        await target.send(message)
        await target.send(message)
        await target.close()
        import honker

        database = honker.open(str(service.path))
        jobs = database.queue(place).claim_batch("worker", 10)
        database.close()
        assert [job.payload for job in jobs] == [json.loads(message.body)]

    async def test_a_channel_has_it(self, service: HonkerService, place: str) -> None:
        message, target = make_message(), service.made(service.settings(place, "notify"))
        await target.send(message)
        await target.close()
        import honker

        database = honker.open(str(service.path))
        rows = database.query("SELECT payload FROM _honker_notifications WHERE channel = ?", [place])
        database.close()
        assert [json.loads(row["payload"]) for row in rows] == [json.loads(message.body)]

    async def test_a_file_that_was_replaced_is_opened_anew(self, service: HonkerService, place: str) -> None:
        target = service.target(place)
        await target.send(make_message())
        for path in service.home.iterdir():
            path.rename(service.folder / f"old-{path.name}")
        message = make_message()
        await target.send(message)
        await target.check()
        async with service.listening(place) as ear:
            assert [heard.marker for heard in await heard_until(ear, {message.id})] == [message.id]
        await target.close()

    async def test_what_is_no_document_is_undeliverable(self, service: HonkerService, place: str) -> None:
        target = service.target(place)
        with pytest.raises(Undeliverable):
            await target.send(EventMessage("evt_1", "s3:ObjectCreated:Put", "b/k", False, 0, b"{", "application/json"))
        await target.close()


def test_the_kind_is_found_by_its_name(service: HonkerService) -> None:
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
def test_settings_that_cannot_be_are_refused(service: HonkerService, change: dict[str, object], argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        msgspec.structs.replace(service.settings("p"), **change).validate()
    assert refused.value.argument == argument
