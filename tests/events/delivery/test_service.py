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

from .conftest import DeliveryHarness, FakeTargets, a_target, open_harness

URL = "https://receiver.example/events"
UNPRIVILEGED = user("unprivileged")
MANAGER = user(
    "manager",
    b'{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"lakebed:ManageTargets","Resource":"*"}}',
)


def a_webhook(url: str = URL, *, kinds: Sequence[str] = ("*",), **settings: object) -> TargetSpec:
    return TargetSpec({"endpoint": url, **settings}, kinds=kinds)


async def test_generated_secret_is_shown_once_and_kept(harness: DeliveryHarness) -> None:
    made = await harness.targets.put(MANAGER, "r", WEBHOOK, a_webhook())
    assert made.is_new
    assert isinstance(made.record.settings, WebhookSettings)
    assert made.generated == {"secret": made.record.settings.secret}
    assert made.arn == "arn:lakebed:sqs:us-east-1:r:webhook"
    again = await harness.targets.put(MANAGER, "r", WEBHOOK, a_webhook(URL + "/2"))
    assert (again.is_new, again.generated) == (False, {})
    assert isinstance(again.record.settings, WebhookSettings)
    assert again.record.settings.secret == made.record.settings.secret
    # Masked settings can be sent back.
    shown = masked_settings(again.record.settings)
    assert shown == {"endpoint": URL + "/2", "secret": "***"}
    same = await harness.targets.put(MANAGER, "r", WEBHOOK, TargetSpec(shown))
    assert same.record.settings == again.record.settings
    own = new_secret().reveal()
    changed = await harness.targets.put(MANAGER, "r", WEBHOOK, a_webhook(secret=own))
    assert isinstance(changed.record.settings, WebhookSettings)
    assert (changed.generated, changed.record.settings.secret) == ({}, own)


async def test_stored_secrets_are_sealed_and_masked(harness: DeliveryHarness) -> None:
    secret = new_secret().reveal()
    put = await harness.targets.put(ROOT, "r", WEBHOOK, a_webhook(secret=secret, auth_token="hunter2"))
    ((shown, sealed),) = await harness.object_context.meta.rows("SELECT settings, secrets FROM targets")
    for text in (shown, str(sealed), repr(put), str(masked_settings(put.record.settings))):
        assert secret not in text
        assert "hunter2" not in text
    found = await harness.records.find(harness.object_context.meta, "r", WEBHOOK)
    assert found == put.record
    assert await harness.records.all() == [put.record]


async def test_target_events_contain_no_secrets(harness: DeliveryHarness) -> None:
    await harness.targets.put(ROOT, "r", WEBHOOK, a_webhook(f"{URL}?token=hunter2"))
    await harness.targets.put(ROOT, "r", WEBHOOK, a_webhook())
    for is_paused in (True, True, False):
        await harness.targets.pause(ROOT, "r", WEBHOOK, is_paused=is_paused)
    await harness.targets.delete(ROOT, "r", WEBHOOK)
    entries = await harness.object_context.outbox.read_after(harness.object_context.meta, 0, 10)
    kinds = ["TargetCreated", "TargetChanged", "TargetPaused", "TargetResumed", "TargetDeleted"]
    assert [entry.event.kind for entry in entries] == kinds
    assert {entry.event.subject for entry in entries} == {"r:webhook"}
    assert not any(b"hunter2" in entry.event.payload for entry in entries)


async def test_every_operation_requires_manage_targets(harness: DeliveryHarness) -> None:
    targets = harness.targets
    for operation in (
        targets.list(UNPRIVILEGED),
        targets.arns(UNPRIVILEGED),
        targets.get(UNPRIVILEGED, "r", NAME),
        targets.put(UNPRIVILEGED, "r", NAME, TargetSpec()),
        targets.delete(UNPRIVILEGED, "r", NAME),
        targets.pause(UNPRIVILEGED, "r", NAME, is_paused=True),
        targets.test(UNPRIVILEGED, "r", NAME),
        targets.deliveries(UNPRIVILEGED, "r", NAME, DeliveryState.DEAD, after_seq=0, limit=1),
        targets.redrive(UNPRIVILEGED, "r", NAME, None),
    ):
        with pytest.raises(AccessDenied, match="lakebed:ManageTargets"):
            await operation


async def test_operations_on_missing_targets_raise_not_found(harness: DeliveryHarness) -> None:
    targets = harness.targets
    await targets.put(ROOT, "r", NAME, TargetSpec())
    for name, type_ in (("x", NAME), ("r", WEBHOOK)):
        for operation in (
            targets.get(ROOT, name, type_),
            targets.delete(ROOT, name, type_),
            targets.pause(ROOT, name, type_, is_paused=True),
            targets.test(ROOT, name, type_),
            targets.deliveries(ROOT, name, type_, DeliveryState.DEAD, after_seq=0, limit=1),
            targets.redrive(ROOT, name, type_, None),
        ):
            with pytest.raises(NotFound, match=f"no such target. target={name}:{type_}"):
                await operation


async def test_targets_of_settings_are_listed_and_read_only(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    configured = a_target("stated")
    harness = open_harness(harness.object_context, harness.clock, fake_targets, configured)
    (status,) = await harness.targets.list(ROOT)
    assert (status.record, status.after) == (configured, None)
    assert status.record.origin is TargetOrigin.SETTINGS
    assert await harness.targets.arns(ROOT) == ["arn:lakebed:sqs:us-east-1:stated:memory"]
    for operation in (
        harness.targets.put(ROOT, "stated", NAME, TargetSpec()),
        harness.targets.delete(ROOT, "stated", NAME),
        harness.targets.pause(ROOT, "stated", NAME, is_paused=True),
    ):
        with pytest.raises(StateConflict, match="configured in the settings"):
            await operation


async def test_number_of_targets_is_limited(harness: DeliveryHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.events.delivery.service.MAX_TARGETS", 1)
    await harness.targets.put(ROOT, "one", NAME, TargetSpec())
    with pytest.raises(StateConflict, match="remove one first"):
        await harness.targets.put(ROOT, "two", NAME, TargetSpec())


async def test_target_named_by_bucket_rules_cannot_be_removed(
    harness: DeliveryHarness, fake_targets: FakeTargets
) -> None:
    meta, buckets = harness.object_context.meta, ["logs", "photos"]
    rule = NotificationRule("new", "arn:lakebed:sqs::r:memory", (EventName.OBJECT_CREATED_ALL,))

    async def put_rules(since_seq: int, document: bytes | None) -> None:
        async def work(tx: Transaction) -> None:
            for bucket in buckets:
                await record_version(tx, bucket, since_seq, document)

        await meta.transact(work)

    await put_rules(1, encode_configuration(NotificationConfiguration((rule,))))
    await harness.put("r")
    await harness.put("other")
    with pytest.raises(StateConflict, match="target=r:memory buckets=logs, photos"):
        await harness.targets.delete(ROOT, "r", NAME)
    assert [status.record.name for status in await harness.targets.list(ROOT)] == ["other", "r"]
    await harness.targets.delete(ROOT, "other", NAME)
    await put_rules(2, None)
    await harness.targets.delete(ROOT, "r", NAME)
    assert await harness.targets.list(ROOT) == []


async def test_changed_target_stays_paused(harness: DeliveryHarness) -> None:
    await harness.put()
    await harness.targets.pause(ROOT, "r", NAME, is_paused=True)
    await harness.put(kinds=["*"])
    assert (await harness.targets.get(ROOT, "r", NAME)).record.is_paused


async def test_test_reports_why_target_is_not_ready(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.put()
    assert await harness.targets.test(ROOT, "r", NAME) is None
    fake_targets.inbox().is_down = True
    assert await harness.targets.test(ROOT, "r", NAME) == "the inbox is down"


async def test_target_is_prepared_before_it_is_added(harness: DeliveryHarness) -> None:
    prepared: list[str] = []

    class Prepared(FakeTargets):
        @property
        def kind(self) -> TargetType[MemorySettings]:
            async def prepare(configured: MemorySettings) -> None:
                if configured.destination == "nowhere":
                    raise Unavailable("no such database")
                prepared.append(configured.destination)

            return TargetType(
                NAME, MemorySettings, lambda configured: MemoryTarget(self.inbox(configured.destination)), prepare
            )

    harness = open_harness(harness.object_context, harness.clock, Prepared())
    with pytest.raises(Unavailable, match="no such database"):
        await harness.targets.put(ROOT, "r", NAME, TargetSpec({"destination": "nowhere"}))
    assert await harness.targets.list(ROOT) == []
    await harness.targets.put(ROOT, "r", NAME, TargetSpec({"destination": "here"}))
    assert prepared == ["here"]


async def test_invalid_fields_are_rejected_by_name(harness: DeliveryHarness) -> None:
    put = harness.targets.put
    with pytest.raises(InvalidName):
        await put(ROOT, "a b", WEBHOOK, a_webhook())
    for type_, spec, argument in (
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
            await put(ROOT, "r", type_, spec)
        assert caught.value.argument == argument, str(caught.value)
    assert await harness.targets.list(ROOT) == []


async def test_settings_accept_numbers_as_text(harness: DeliveryHarness) -> None:
    put = await harness.targets.put(ROOT, "r", NAME, TargetSpec({"max_in_flight": "7"}))
    assert put.record.settings == MemorySettings(max_in_flight=7)


async def test_audit_subscription_receives_the_audit_trail(harness: DeliveryHarness, fake_targets: FakeTargets) -> None:
    await harness.targets.put(ROOT, "r", NAME, TargetSpec({"destination": "r"}, audit=True))
    await harness.emit("anna", kind="UserCreated")
    await harness.emit("lake/t")
    await harness.emit("lake", kind="AttemptDenied")
    await harness.drain(await harness.delivery())
    assert fake_targets.subjects == ["r:memory", "anna", "lake"]


async def test_undecodable_target_is_skipped_and_can_be_replaced_or_removed(
    harness: DeliveryHarness,
) -> None:
    await harness.put("good")
    await harness.put("bad")
    await harness.put("worse")

    async def spoil(tx: Transaction) -> None:
        await tx.run("UPDATE targets SET secrets = ? WHERE name = 'bad'", b"\x01\x05first nonsense and more of it")
        await tx.run("UPDATE targets SET settings = '{\"colour\":1}' WHERE name = 'worse'")

    await harness.object_context.meta.transact(spoil)
    assert [record.name for record in await harness.records.all()] == ["good"]
    await harness.put("bad")
    await harness.targets.delete(ROOT, "worse", NAME)
    assert [record.name for record in await harness.records.all()] == ["bad", "good"]


def test_settings_repr_masks_secrets() -> None:
    assert repr(MemorySettings(destination="p", password="hunter2")) == (
        "MemorySettings(destination='p', password=***, max_in_flight=4)"
    )
    assert b"hunter2" in msgspec.json.encode(MemorySettings(password="hunter2"))
