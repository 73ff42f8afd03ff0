"""The statements of webhooks."""

from __future__ import annotations

from typing import Final

SUBSCRIBERS: Final = "SELECT name, url, secret, kinds FROM webhooks ORDER BY name"
SUBSCRIBER: Final = "SELECT name, url, secret, kinds FROM webhooks WHERE name = ?"
PUT_SUBSCRIBER: Final = """
INSERT INTO webhooks (name, url, secret, kinds, created_ms, changed_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET url = excluded.url, secret = excluded.secret, kinds = excluded.kinds, changed_ms = excluded.changed_ms
"""
DELETE_SUBSCRIBER: Final = "DELETE FROM webhooks WHERE name = ?"

_COLUMNS: Final = (
    "seq, lane, kind, subject, payload, occurred_ms, operation, state, attempts, due_ms, failure, changed_ms"
)
WAITING: Final = """
SELECT seq, lane, due_ms FROM webhook_deliveries WHERE webhook = ? AND state = 'waiting' ORDER BY lane, seq
"""
DELIVERY: Final = f"SELECT {_COLUMNS} FROM webhook_deliveries WHERE webhook = ? AND seq = ?"  # noqa: S608 - ours
DELIVERIES: Final = f"""
SELECT {_COLUMNS} FROM webhook_deliveries WHERE webhook = ? AND state = ? AND seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - ours
COUNTS: Final = "SELECT state, count(*) FROM webhook_deliveries WHERE webhook = ? GROUP BY state"
LAST_FAILURE: Final = """
SELECT failure FROM webhook_deliveries WHERE webhook = ? AND failure <> '' ORDER BY changed_ms DESC, seq DESC LIMIT 1
"""
ADD_WAITING: Final = f"""
INSERT INTO webhook_deliveries (webhook, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?, ?, ?)
ON CONFLICT (webhook, seq) DO NOTHING
"""  # noqa: S608 - ours
FAILED: Final = """
UPDATE webhook_deliveries SET state = ?, attempts = ?, due_ms = ?, failure = ?, changed_ms = ?
WHERE webhook = ? AND seq = ? AND state = 'waiting'
"""
DELIVERED: Final = "DELETE FROM webhook_deliveries WHERE webhook = ? AND seq = ?"
REDRIVE_ALL: Final = """
UPDATE webhook_deliveries SET state = 'waiting', attempts = 0, due_ms = ?, changed_ms = ?
WHERE webhook = ? AND state = 'dead'
"""
REDRIVE_ONE: Final = f"{REDRIVE_ALL} AND seq = ?"
FORGET_ALL: Final = "DELETE FROM webhook_deliveries WHERE webhook = ?"
FORGET_DEAD: Final = "DELETE FROM webhook_deliveries WHERE state = 'dead' AND changed_ms < ?"
FORGET_MANY_DEAD: Final = """
DELETE FROM webhook_deliveries WHERE webhook = ? AND state = 'dead' AND seq <= (
    SELECT seq FROM webhook_deliveries WHERE webhook = ? AND state = 'dead' ORDER BY seq DESC LIMIT 1 OFFSET ?
)
"""
