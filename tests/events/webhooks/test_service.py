from __future__ import annotations

import pytest

from lakebed.core.errors import AccessDenied, InvalidInput, InvalidName, NotFound, StateConflict
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import new_secret
from lakebed.events.webhooks import DeliveryState, Origin
from lakebed.events.webhooks.model import check_url
from tests.objects.stores import ROOT, user

from .conftest import URL, Office, Receiver, a_subscriber, open_office

NOBODY = user("nobody")
MANAGER = user(
    "manager",
    b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"lakebed:ManageWebhooks","Resource":"*"}}',
)


async def test_a_secret_is_made_once_and_shown_once(office: Office) -> None:
    made = await office.webhooks.put(MANAGER, "r", URL, ["Table*"], None)
    assert made.is_new
    assert made.secret == made.subscriber.secret
    again = await office.webhooks.put(MANAGER, "r", URL + "/2", ["*"], None)
    assert (again.is_new, again.secret) == (False, None)
    assert again.subscriber.secret == made.subscriber.secret
    own = new_secret()
    changed = await office.webhooks.put(MANAGER, "r", URL, ["*"], own)
    assert (changed.secret, changed.subscriber.secret) == (None, own)


async def test_a_stored_secret_is_sealed(office: Office) -> None:
    secret = new_secret()
    await office.webhooks.put(ROOT, "r", URL, ["*"], secret)
    ((stored,),) = await office.facilities.meta.rows("SELECT secret FROM webhooks")
    assert secret.reveal().encode() not in stored
    found = await office.subscribers.find(office.facilities.meta, "r")
    assert found is not None
    assert found.secret == secret


async def test_what_happens_to_webhooks_is_told_without_secrets(office: Office) -> None:
    await office.webhooks.put(ROOT, "r", f"{URL}?token=hunter2", ["*"], None)
    await office.webhooks.put(ROOT, "r", URL, ["*"], None)
    await office.webhooks.delete(ROOT, "r")
    entries = await office.facilities.outbox.read_after(office.facilities.meta, 0, 10)
    assert [entry.event.kind for entry in entries] == ["WebhookCreated", "WebhookChanged", "WebhookDeleted"]
    assert not any(b"hunter2" in entry.event.payload for entry in entries)


async def test_nobody_is_let_near_without_the_right(office: Office) -> None:
    webhooks = office.webhooks
    for asked in (
        webhooks.list(NOBODY),
        webhooks.get(NOBODY, "r"),
        webhooks.put(NOBODY, "r", URL, ["*"], None),
        webhooks.delete(NOBODY, "r"),
        webhooks.deliveries(NOBODY, "r", DeliveryState.DEAD, after_seq=0, limit=1),
        webhooks.redrive(NOBODY, "r", None),
    ):
        with pytest.raises(AccessDenied, match="lakebed:ManageWebhooks"):
            await asked


async def test_what_is_not_there_is_not_found(office: Office) -> None:
    webhooks = office.webhooks
    for asked in (
        webhooks.get(ROOT, "r"),
        webhooks.delete(ROOT, "r"),
        webhooks.deliveries(ROOT, "r", DeliveryState.DEAD, after_seq=0, limit=1),
        webhooks.redrive(ROOT, "r", None),
    ):
        with pytest.raises(NotFound, match="no such webhook"):
            await asked


async def test_those_of_the_settings_are_shown_and_not_changed(office: Office, receiver: Receiver) -> None:
    stated = a_subscriber("stated")
    office = open_office(office.facilities, office.clock, receiver, stated)
    (status,) = await office.webhooks.list(ROOT)
    assert (status.subscriber, status.after) == (stated, None)
    assert status.subscriber.origin is Origin.SETTINGS
    for asked in (office.webhooks.put(ROOT, "stated", URL, ["*"], None), office.webhooks.delete(ROOT, "stated")):
        with pytest.raises(StateConflict, match="one of the settings"):
            await asked


async def test_there_are_not_any_number_of_them(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.events.webhooks.service.MOST_SUBSCRIBERS", 1)
    await office.webhooks.put(ROOT, "one", URL, ["*"], None)
    with pytest.raises(StateConflict, match="remove one first"):
        await office.webhooks.put(ROOT, "two", URL, ["*"], None)


async def test_bad_words_are_refused(office: Office) -> None:
    put = office.webhooks.put
    with pytest.raises(InvalidName):
        await put(ROOT, "a b", URL, ["*"], None)
    with pytest.raises(InvalidInput, match="kind is a list"):
        await put(ROOT, "r", URL, [], None)
    with pytest.raises(InvalidInput, match="expected whsec_"):
        await put(ROOT, "r", URL, ["*"], Secret("short"))
    assert await office.webhooks.list(ROOT) == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "receiver.example",
        "ftp://receiver.example/",
        "https://",
        "https://receiver.example:0/",
        "https://receiver.example:x/",
        "https://user:word@receiver.example/",
        "https://receiver.example/#part",
        "https://receiver.example/a b",
        "https://[::1/",
        "http://receiver.example/",
        "https://receiver.example/" + "x" * 3000,
    ],
)
def test_a_url_that_events_cannot_be_posted_to_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        check_url(url, allow_http=False)


def test_plain_http_is_for_this_machine_or_for_who_allows_it() -> None:
    assert check_url("http://127.0.0.1:8080/x", allow_http=False)
    assert check_url("http://receiver.example/x", allow_http=True)
    assert check_url("https://receiver.example/x?y=z", allow_http=False)
