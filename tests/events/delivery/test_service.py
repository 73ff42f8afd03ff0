from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from lakebed.core.errors import AccessDenied, InvalidInput, InvalidName, NotFound, StateConflict, Unavailable
from lakebed.core.webhooks import new_secret
from lakebed.events.delivery import DeliveryState, TargetOrigin, TargetSpec, masked_settings
from lakebed.events.names import EventName
from lakebed.events.rules import NotificationConfiguration, NotificationRule
from lakebed.events.rules.model import encode_configuration
from lakebed.events.targets.seam import TargetType
from lakebed.events.targets.webhook import NAME as WEBHOOK
from lakebed.events.targets.webhook import WebhookSettings
from lakebed.meta.seam import Transaction
from lakebed.objects.buckets.notification_versions import record_version
from tests.fixtures.memory_target import NAME, MemorySettings, MemoryTarget
from tests.objects.stores import ROOT, user

from .conftest import Office, Receiver, a_target, open_office

URL = "https://receiver.example/events"
NOBODY = user("nobody")
MANAGER = user(
    "manager",
    b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"lakebed:ManageTargets","Resource":"*"}}',
)


def a_webhook(url: str = URL, *, kinds: Sequence[str] = ("*",), **settings: object) -> TargetSpec:
    return TargetSpec({"endpoint": url, **settings}, kinds=kinds)


async def test_a_secret_is_made_once_and_shown_once(office: Office) -> None:
    made = await office.targets.put(MANAGER, "r", WEBHOOK, a_webhook())
    assert made.is_new
    assert isinstance(made.record.settings, WebhookSettings)
    assert made.generated == {"secret": made.record.settings.secret}
    assert made.arn == "arn:lakebed:sqs:us-east-1:r:webhook"
    again = await office.targets.put(MANAGER, "r", WEBHOOK, a_webhook(URL + "/2"))
    assert (again.is_new, again.generated) == (False, {})
    assert isinstance(again.record.settings, WebhookSettings)
    assert again.record.settings.secret == made.record.settings.secret
    # What was shown can be given back.
    shown = masked_settings(again.record.settings)
    assert shown == {"endpoint": URL + "/2", "secret": "***"}
    same = await office.targets.put(MANAGER, "r", WEBHOOK, TargetSpec(shown))
    assert same.record.settings == again.record.settings
    own = new_secret().reveal()
    changed = await office.targets.put(MANAGER, "r", WEBHOOK, a_webhook(secret=own))
    assert isinstance(changed.record.settings, WebhookSettings)
    assert (changed.generated, changed.record.settings.secret) == ({}, own)


async def test_stored_secrets_are_sealed_and_never_shown(office: Office) -> None:
    secret = new_secret().reveal()
    put = await office.targets.put(ROOT, "r", WEBHOOK, a_webhook(secret=secret, auth_token="hunter2"))
    ((shown, sealed),) = await office.object_context.meta.rows("SELECT settings, secrets FROM targets")
    for text in (shown, str(sealed), repr(put), str(masked_settings(put.record.settings))):
        assert secret not in text
        assert "hunter2" not in text
    found = await office.records.find(office.object_context.meta, "r", WEBHOOK)
    assert found == put.record
    assert await office.records.all() == [put.record]


async def test_what_happens_to_targets_is_told_without_secrets(office: Office) -> None:
    await office.targets.put(ROOT, "r", WEBHOOK, a_webhook(f"{URL}?token=hunter2"))
    await office.targets.put(ROOT, "r", WEBHOOK, a_webhook())
    for is_paused in (True, True, False):
        await office.targets.pause(ROOT, "r", WEBHOOK, is_paused=is_paused)
    await office.targets.delete(ROOT, "r", WEBHOOK)
    entries = await office.object_context.outbox.read_after(office.object_context.meta, 0, 10)
    kinds = ["TargetCreated", "TargetChanged", "TargetPaused", "TargetResumed", "TargetDeleted"]
    assert [entry.event.kind for entry in entries] == kinds
    assert {entry.event.subject for entry in entries} == {"r:webhook"}
    assert not any(b"hunter2" in entry.event.payload for entry in entries)


async def test_nobody_is_let_near_without_the_right(office: Office) -> None:
    targets = office.targets
    for asked in (
        targets.list(NOBODY),
        targets.arns(NOBODY),
        targets.get(NOBODY, "r", NAME),
        targets.put(NOBODY, "r", NAME, TargetSpec()),
        targets.delete(NOBODY, "r", NAME),
        targets.pause(NOBODY, "r", NAME, is_paused=True),
        targets.test(NOBODY, "r", NAME),
        targets.deliveries(NOBODY, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=1),
        targets.redrive(NOBODY, "r", NAME, None),
    ):
        with pytest.raises(AccessDenied, match="lakebed:ManageTargets"):
            await asked


async def test_what_is_not_there_is_not_found(office: Office) -> None:
    targets = office.targets
    await targets.put(ROOT, "r", NAME, TargetSpec())
    for name, type_ in (("x", NAME), ("r", WEBHOOK)):
        for asked in (
            targets.get(ROOT, name, type_),
            targets.delete(ROOT, name, type_),
            targets.pause(ROOT, name, type_, is_paused=True),
            targets.test(ROOT, name, type_),
            targets.deliveries(ROOT, name, type_, DeliveryState.DEAD, after_seq=0, limit=1),
            targets.redrive(ROOT, name, type_, None),
        ):
            with pytest.raises(NotFound, match=f"no such target. target={name}:{type_}"):
                await asked


async def test_those_of_the_settings_are_shown_and_not_changed(office: Office, receiver: Receiver) -> None:
    configured = a_target("stated")
    office = open_office(office.object_context, office.clock, receiver, configured)
    (status,) = await office.targets.list(ROOT)
    assert (status.record, status.after) == (configured, None)
    assert status.record.origin is TargetOrigin.SETTINGS
    assert await office.targets.arns(ROOT) == ["arn:lakebed:sqs:us-east-1:stated:memory"]
    for asked in (
        office.targets.put(ROOT, "stated", NAME, TargetSpec()),
        office.targets.delete(ROOT, "stated", NAME),
        office.targets.pause(ROOT, "stated", NAME, is_paused=True),
    ):
        with pytest.raises(StateConflict, match="configured in the settings"):
            await asked


async def test_there_are_not_any_number_of_them(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.events.delivery.service.MAX_TARGETS", 1)
    await office.targets.put(ROOT, "one", NAME, TargetSpec())
    with pytest.raises(StateConflict, match="remove one first"):
        await office.targets.put(ROOT, "two", NAME, TargetSpec())


async def test_a_target_that_rules_name_is_not_removed(office: Office, receiver: Receiver) -> None:
    meta, buckets = office.object_context.meta, ["logs", "photos"]
    rule = NotificationRule("new", "arn:lakebed:sqs::r:memory", (EventName.OBJECT_CREATED_ALL,))

    async def put_rules(since_seq: int, document: bytes | None) -> None:
        async def work(tx: Transaction) -> None:
            for bucket in buckets:
                await record_version(tx, bucket, since_seq, document)

        await meta.transact(work)

    await put_rules(1, encode_configuration(NotificationConfiguration((rule,))))
    await office.put("r")
    await office.put("other")
    with pytest.raises(StateConflict, match="target=r:memory buckets=logs, photos"):
        await office.targets.delete(ROOT, "r", NAME)
    assert [status.record.name for status in await office.targets.list(ROOT)] == ["other", "r"]
    await office.targets.delete(ROOT, "other", NAME)
    await put_rules(2, None)
    await office.targets.delete(ROOT, "r", NAME)
    assert await office.targets.list(ROOT) == []


async def test_a_target_that_is_changed_while_it_is_paused_stays_so(office: Office) -> None:
    await office.put()
    await office.targets.pause(ROOT, "r", NAME, is_paused=True)
    await office.put(kinds=["*"])
    assert (await office.targets.get(ROOT, "r", NAME)).record.is_paused


async def test_a_target_is_asked_whether_it_is_ready(office: Office, receiver: Receiver) -> None:
    await office.put()
    assert await office.targets.test(ROOT, "r", NAME) is None
    receiver.box().is_down = True
    assert await office.targets.test(ROOT, "r", NAME) == "the box is down"


async def test_what_a_target_needs_elsewhere_is_prepared_before_it_is_added(office: Office) -> None:
    prepared: list[str] = []

    class Prepared(Receiver):
        @property
        def kind(self) -> TargetType[MemorySettings]:
            async def prepare(configured: MemorySettings) -> None:
                if configured.place == "nowhere":
                    raise Unavailable("no such database")
                prepared.append(configured.place)

            return TargetType(
                NAME, MemorySettings, lambda configured: MemoryTarget(self.box(configured.place)), prepare
            )

    office = open_office(office.object_context, office.clock, Prepared())
    with pytest.raises(Unavailable, match="no such database"):
        await office.targets.put(ROOT, "r", NAME, TargetSpec({"place": "nowhere"}))
    assert await office.targets.list(ROOT) == []
    await office.targets.put(ROOT, "r", NAME, TargetSpec({"place": "here"}))
    assert prepared == ["here"]


async def test_bad_words_are_refused_by_their_names(office: Office) -> None:
    put = office.targets.put
    with pytest.raises(InvalidName):
        await put(ROOT, "a b", WEBHOOK, a_webhook())
    for type_, asked, argument in (
        ("pigeon", TargetSpec(), "type"),
        (WEBHOOK, a_webhook(secret="short"), "secret"),
        (WEBHOOK, a_webhook(colour="red"), "colour"),
        (WEBHOOK, TargetSpec({}), "endpoint"),
        (WEBHOOK, a_webhook(skip_tls_verify="maybe"), "skip_tls_verify"),
        (WEBHOOK, a_webhook("http://elsewhere.example/"), "endpoint"),
        (NAME, TargetSpec(form="haiku"), "form"),
        (NAME, TargetSpec(kinds=["a*b"]), "kind"),
        (NAME, TargetSpec(subject="lake"), "kinds"),
        (NAME, TargetSpec(kinds=["*"], subject="x" * 3000), "subject"),
    ):
        with pytest.raises(InvalidInput) as caught:
            await put(ROOT, "r", type_, asked)
        assert caught.value.argument == argument, str(caught.value)
    assert await office.targets.list(ROOT) == []


async def test_texts_may_spell_numbers_and_switches(office: Office) -> None:
    put = await office.targets.put(ROOT, "r", NAME, TargetSpec({"max_in_flight": "7"}))
    assert put.record.settings == MemorySettings(max_in_flight=7)


async def test_an_audit_target_is_sent_what_the_audit_trail_is_made_of(office: Office, receiver: Receiver) -> None:
    await office.targets.put(ROOT, "r", NAME, TargetSpec({"place": "r"}, audit=True))
    await office.tell("anna", kind="UserCreated")
    await office.tell("lake/t")
    await office.tell("lake", kind="AttemptDenied")
    await office.drain(await office.delivery())
    assert receiver.subjects == ["r:memory", "anna", "lake"]


async def test_a_target_that_cannot_be_read_holds_up_no_other_and_can_be_replaced_and_removed(office: Office) -> None:
    await office.put("good")
    await office.put("bad")
    await office.put("worse")

    async def spoil(tx: Transaction) -> None:
        await tx.run("UPDATE targets SET secrets = ? WHERE name = 'bad'", b"\x01\x05first nonsense and more of it")
        await tx.run("UPDATE targets SET settings = '{\"colour\":1}' WHERE name = 'worse'")

    await office.object_context.meta.transact(spoil)
    assert [record.name for record in await office.records.all()] == ["good"]
    await office.put("bad")
    await office.targets.delete(ROOT, "worse", NAME)
    assert [record.name for record in await office.records.all()] == ["bad", "good"]


def test_settings_of_every_kind_hide_their_secrets() -> None:
    assert repr(MemorySettings(place="p", password="hunter2")) == (
        "MemorySettings(place='p', password=***, max_in_flight=4)"
    )
    assert b"hunter2" in msgspec.json.encode(MemorySettings(password="hunter2"))
