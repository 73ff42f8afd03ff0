"""The migration from webhooks to targets, from a store with webhooks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.webhooks import new_secret
from lakebed.events.delivery import TargetRecords, parse_subscription
from lakebed.events.delivery.model import TargetRecord
from lakebed.events.delivery.records import PURPOSE
from lakebed.events.delivery.rows import DELIVERIES, DELIVERY, WAITING
from lakebed.events.targets.registry import TargetTypes
from lakebed.events.targets.webhook import WebhookSettings, webhook_type
from lakebed.governance.credentials.vault import MasterKeys, Vault
from lakebed.meta.migrations import migrate, product_migrations
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from tests.meta.stores import open_store

BEFORE = 23
MASTER = MasterKeys({"first": b"1" * 32}, active="first")
SECRET = new_secret()
URL = 'https://receiver.example/"quoted"?a=1&b=2'


@pytest.fixture
async def old(address: str) -> AsyncIterator[MetaStore]:
    """A store of the previous release, with a webhook, its cursor, a waiting event and a dead letter."""
    store = await open_store(address)
    await migrate(store, [step for step in product_migrations() if step.version <= BEFORE])
    # Encrypted as by that release.
    sealed = Vault(MASTER, "webhook secrets").seal(SECRET.reveal().encode(), b"webhook Ware_house-1")

    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO webhooks (name, url, secret, kinds, created_ms, changed_ms) VALUES (?, ?, ?, ?, 1, 2)",
            "Ware_house-1",
            URL,
            sealed,
            "Table*,AFTER_DROP_VIEW",
        )
        for seq, state in ((7, "dead"), (8, "waiting"), (9, "waiting")):
            await tx.run(
                "INSERT INTO webhook_deliveries (webhook, seq, lane, kind, subject, payload, occurred_ms, operation,"
                " state, attempts, due_ms, failure, changed_ms)"
                " VALUES ('Ware_house-1', ?, 'lane', 'K', 's', ?, 1, 'DROP_TABLE', ?, 3, 4, 'no', 5)",
                seq,
                b"\x80",
                state,
            )
        for name, at in (("webhook Ware_house-1", 9), ("upkeep", 3), ("webhooks", 4)):
            await tx.run("INSERT INTO outbox_cursors (name, seq) VALUES (?, ?)", name, at)
        await tx.run("INSERT INTO leases (name, holder, token, expires_ms) VALUES ('webhooks', 'other', 5, 1)")

    await store.transact(work)
    yield store
    await store.close()


async def test_stored_webhook_becomes_a_target_with_its_secret_and_cursor(
    old: MetaStore,
) -> None:
    await migrate(old)
    kinds = TargetTypes([webhook_type(ManualClock(), timeout_seconds=1, allow_http=False)])
    records = TargetRecords(old, Vault(MASTER, PURPOSE), kinds, {})
    expected = TargetRecord(
        "Ware_house-1",
        "webhook",
        WebhookSettings(endpoint=URL, secret=SECRET.reveal()),
        parse_subscription(["Table*", "AFTER_DROP_VIEW"]),
    )
    assert await records.all() == [expected]
    assert await records.exists(old, "Ware_house-1:webhook")
    assert await Outbox(old).cursors(old) == [("target Ware_house-1:webhook", 9), ("upkeep", 3), ("webhooks", 4)]
    # After an update it is stored like any other target.
    stored = records.stored(expected)

    async def work(tx: Transaction) -> None:
        await tx.run("UPDATE targets SET settings = ?, secrets = ?", stored.document, stored.sealed)

    await old.transact(work)
    assert await records.all() == [expected]


async def test_waiting_events_and_dead_letters_are_migrated(old: MetaStore) -> None:
    await migrate(old)
    target = "Ware_house-1:webhook"
    assert await old.rows(WAITING, target, 0, 100) == [(8, "lane", 4), (9, "lane", 4)]
    assert [row[0] for row in await old.rows(DELIVERIES, target, "dead", 0, 10)] == [7]
    assert await old.row(DELIVERY, target, 8) == (
        *(8, "lane", "K", "s", b"\x80", 1, "DROP_TABLE"),
        *("", "waiting", 3, 4, "no", 5),
    )
    assert await old.rows("SELECT name FROM leases") == []
