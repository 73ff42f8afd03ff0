"""The statements of the task queue."""
# ruff: noqa: S608 -- every piece that is put together here is a constant of this module

from __future__ import annotations

COLUMNS = (
    "id, kind, dedupe, payload, state, due_ms, attempts, max_attempts, token, worker, outcome, created_ms, changed_ms"
)
OPEN = "state IN ('ready', 'claimed')"  # spelled as in the partial indexes, so that they are used
MINE = "id = ? AND token = ? AND state = 'claimed'"

INSERT = f"""
INSERT INTO tasks (kind, dedupe, payload, state, due_ms, attempts, max_attempts, token, created_ms, changed_ms)
VALUES (?, ?, ?, 'ready', ?, 0, ?, 0, ?, ?)
ON CONFLICT (kind, dedupe) WHERE dedupe IS NOT NULL AND {OPEN} DO NOTHING
RETURNING id
"""
SAME = f"SELECT id FROM tasks WHERE kind = ? AND dedupe = ? AND {OPEN}"
FIND = f"SELECT {COLUMNS} FROM tasks WHERE id = ?"
DUE = f"SELECT {COLUMNS} FROM tasks WHERE kind IN (%s) AND {OPEN} AND due_ms <= ? ORDER BY due_ms, id LIMIT ?"
CLAIM = f"""
UPDATE tasks SET state = 'claimed', due_ms = ?, attempts = attempts + 1, token = token + 1, worker = ?, changed_ms = ?
WHERE id = ? RETURNING {COLUMNS}
"""
HEARTBEAT = f"UPDATE tasks SET due_ms = ?, changed_ms = ? WHERE {MINE}"
DONE = f"UPDATE tasks SET state = 'done', outcome = ?, changed_ms = ? WHERE {MINE}"
GONE = f"DELETE FROM tasks WHERE {MINE}"
RETRY = f"UPDATE tasks SET state = 'ready', due_ms = ?, outcome = ?, worker = NULL, changed_ms = ? WHERE {MINE}"
DEAD = f"UPDATE tasks SET state = 'dead', outcome = ?, changed_ms = ? WHERE {MINE}"
REDRIVE = """
UPDATE tasks SET state = 'ready', due_ms = ?, attempts = 0, worker = NULL, changed_ms = ?
WHERE id = ? AND state = 'dead'
"""
REVISE = """
UPDATE tasks SET payload = ?, due_ms = CASE WHEN due_ms > ? THEN ? ELSE due_ms END, changed_ms = ?
WHERE id = ? AND state = 'ready' AND attempts = 0
"""
WITHDRAW = "DELETE FROM tasks WHERE id = ? AND state = 'ready'"
OPEN_WITH = f"SELECT {COLUMNS} FROM tasks WHERE kind IN (%s) AND dedupe IN (%s) AND dedupe IS NOT NULL AND {OPEN}"
LIST = f"SELECT {COLUMNS} FROM tasks WHERE kind IN (%s) AND state IN (%s) AND id > ? ORDER BY id LIMIT ?"
FORGET = """
DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE state IN ('done', 'dead') AND changed_ms < ? LIMIT ?)
"""
