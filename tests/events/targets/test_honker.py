from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest

from lakebed.core.errors import InvalidInput, Undeliverable
from lakebed.events.targets.kinds import kind_named
from lakebed.events.targets.seam import Message
from tests.contracts.targets import TargetContract, make_message
from tests.fixtures.brokers.honker import HonkerService, honker_folder
from tests.fixtures.brokers.service import heard_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def service() -> Iterator[HonkerService]:
    with honker_folder() as service:
        yield service


class TestHonker(TargetContract):
    """The contract, on a stream."""

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
            await target.send(Message("evt_1", "s3:ObjectCreated:Put", "b/k", False, 0, b"{", "application/json"))
        await target.close()


def test_the_kind_is_found_by_its_name(service: HonkerService) -> None:
    kind = kind_named("honker")
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
