"""SQL statements on targets and deliveries."""

from __future__ import annotations

from typing import Final

_TARGET: Final = "name, type, settings, secrets, form, kinds, subject, audit, is_paused, requests"
TARGETS: Final = f"SELECT {_TARGET} FROM targets ORDER BY name, type"  # noqa: S608 - ours
TARGET: Final = f"SELECT {_TARGET} FROM targets WHERE name = ? AND type = ?"  # noqa: S608 - ours
IDS: Final = "SELECT name, type FROM targets"
REQUEST_SUBSCRIBERS: Final = "SELECT name, type FROM targets WHERE requests = 1"
PUT_TARGET: Final = f"""
INSERT INTO targets ({_TARGET}, created_ms, changed_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name, type) DO UPDATE
SET settings = excluded.settings, secrets = excluded.secrets, form = excluded.form, kinds = excluded.kinds,
    subject = excluded.subject, audit = excluded.audit, requests = excluded.requests,
    changed_ms = excluded.changed_ms
"""  # noqa: S608 - ours
PAUSE_TARGET: Final = "UPDATE targets SET is_paused = ?, changed_ms = ? WHERE name = ? AND type = ?"
DELETE_TARGET: Final = "DELETE FROM targets WHERE name = ? AND type = ?"

_COLUMNS: Final = (
    "seq, lane, kind, subject, payload, occurred_ms, operation, rule, state, attempts, due_ms, failure, changed_ms"
)
WAITING: Final = """
SELECT seq, lane, due_ms FROM deliveries
WHERE target = ? AND state = 'waiting' AND seq >= ? AND seq < ? ORDER BY lane, seq
"""
DELIVERY: Final = f"SELECT {_COLUMNS} FROM deliveries WHERE target = ? AND seq = ?"  # noqa: S608 - ours
DELIVERIES: Final = f"""
SELECT {_COLUMNS} FROM deliveries WHERE target = ? AND state = ? AND seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - ours
COUNTS: Final = "SELECT state, count(*) FROM deliveries WHERE target = ? GROUP BY state"
ALL_COUNTS: Final = "SELECT target, state, count(*) FROM deliveries GROUP BY target, state"
LAST_FAILURE: Final = """
SELECT failure FROM deliveries WHERE target = ? AND failure <> '' ORDER BY changed_ms DESC, seq DESC LIMIT 1
"""
ADD: Final = f"""
INSERT INTO deliveries (target, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target, seq) DO NOTHING
"""  # noqa: S608 - ours
FAILED: Final = """
UPDATE deliveries SET state = ?, attempts = ?, due_ms = ?, failure = ?, changed_ms = ?
WHERE target = ? AND seq = ? AND state = 'waiting'
"""
DELIVERED: Final = "DELETE FROM deliveries WHERE target = ? AND seq = ?"
ALL_DUE: Final = "UPDATE deliveries SET due_ms = ? WHERE target = ? AND state = 'waiting' AND due_ms > ?"
REDRIVE_ALL: Final = """
UPDATE deliveries SET state = 'waiting', attempts = 0, due_ms = ?, changed_ms = ?
WHERE target = ? AND state = 'dead'
"""
REDRIVE_ONE: Final = f"{REDRIVE_ALL} AND seq = ?"
DELETE_DELIVERIES: Final = "DELETE FROM deliveries WHERE target = ?"
DELETE_REQUESTS: Final = "DELETE FROM deliveries WHERE target = ? AND seq >= ?"
DELETE_OLD_DEAD: Final = "DELETE FROM deliveries WHERE state = 'dead' AND changed_ms < ?"
DELETE_SURPLUS_DEAD: Final = """
DELETE FROM deliveries WHERE target = ? AND state = 'dead' AND seq >= ? AND seq <= (
    SELECT seq FROM deliveries WHERE target = ? AND state = 'dead' AND seq >= ? AND seq < ?
    ORDER BY seq DESC LIMIT 1 OFFSET ?
)
"""
