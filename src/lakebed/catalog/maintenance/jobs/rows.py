"""SQL statements of maintenance jobs. The only module of this package that knows columns."""

from __future__ import annotations

from typing import Final

# -- configuration ------------------------------------------------------------------------------------------------

EFFECTIVE: Final = (
    "SELECT c.config, d.config FROM entries e LEFT JOIN maintenance_configs c ON c.entry = e.id"
    " LEFT JOIN maintenance_defaults d ON d.warehouse = e.warehouse WHERE e.id = ?"
)
DEFAULT_OF: Final = "SELECT config FROM maintenance_defaults WHERE warehouse = ?"
SET_DEFAULT: Final = (
    "INSERT INTO maintenance_defaults (warehouse, background, config) VALUES (?, ?, ?)"
    " ON CONFLICT (warehouse) DO UPDATE SET background = excluded.background, config = excluded.config"
)
SET_CONFIG: Final = (
    "INSERT INTO maintenance_configs (entry, background, config) VALUES (?, ?, ?)"
    " ON CONFLICT (entry) DO UPDATE SET background = excluded.background, config = excluded.config"
)
REMOVE_DEFAULT: Final = "DELETE FROM maintenance_defaults WHERE warehouse = ?"
REMOVE_CONFIG: Final = "DELETE FROM maintenance_configs WHERE entry = ?"

# -- jobs ---------------------------------------------------------------------------------------------------------

INSERT_JOB: Final = "INSERT INTO maintenance_jobs (id, entry, job, findings, changed_ms) VALUES (?, ?, ?, ?, ?)"
UPDATE_JOB: Final = "UPDATE maintenance_jobs SET job = ?, changed_ms = ? WHERE id = ?"
UPDATE_FINDINGS: Final = "UPDATE maintenance_jobs SET findings = ? WHERE id = ?"
JOB: Final = "SELECT job, findings FROM maintenance_jobs WHERE entry = ? AND id = ?"
RECORD: Final = "SELECT job FROM maintenance_jobs WHERE id = ?"
CURRENT_JOB: Final = (
    "SELECT j.job, j.findings FROM maintenance_states s JOIN maintenance_jobs j ON j.id = s.current_job"
    " WHERE s.entry = ?"
)
LATEST_JOB: Final = "SELECT job, findings FROM maintenance_jobs WHERE entry = ? ORDER BY seq DESC LIMIT 1"
NEWEST_RECORDS: Final = "SELECT job FROM maintenance_jobs WHERE entry = ? ORDER BY seq DESC LIMIT ?"
MAKE_CURRENT: Final = (
    "INSERT INTO maintenance_states (entry, current_job, due_ms, idle_token) VALUES (?, ?, 0, '')"
    " ON CONFLICT (entry) DO UPDATE SET current_job = excluded.current_job"
)
FORGET_JOBS: Final = (
    "DELETE FROM maintenance_jobs WHERE changed_ms < ?"
    " AND NOT EXISTS (SELECT 1 FROM maintenance_states s WHERE s.current_job = maintenance_jobs.id)"
    " AND NOT EXISTS (SELECT 1 FROM quarantined_objects q WHERE q.job = maintenance_jobs.id)"
)

# -- tables that are due ------------------------------------------------------------------------------------------

SET_DUE: Final = (
    "INSERT INTO maintenance_states (entry, due_ms, idle_token) VALUES (?, ?, ?)"
    " ON CONFLICT (entry) DO UPDATE SET due_ms = excluded.due_ms, idle_token = excluded.idle_token"
)
DUE_TABLES: Final = (
    "SELECT e.id FROM entries e JOIN warehouses w ON w.id = e.warehouse"
    " LEFT JOIN maintenance_configs c ON c.entry = e.id"
    " LEFT JOIN maintenance_defaults d ON d.warehouse = e.warehouse"
    " LEFT JOIN maintenance_states s ON s.entry = e.id"
    " WHERE e.kind = 'table' AND e.dropped_ms IS NULL AND COALESCE(c.background, d.background, 0) = 1"
    " AND w.kind = 'INTERNAL'"
    # Without tables of federated catalogs: their metadata is not here.
    " AND e.metadata_at <> ''"
    " AND (s.entry IS NULL OR (s.due_ms <= ? AND s.idle_token <> e.version_token) OR s.due_ms <= ?)"
    " AND e.id > ? ORDER BY e.id LIMIT ?"
)

# -- what commits have done ---------------------------------------------------------------------------------------

NEXT_VERSION: Final = (
    "UPDATE entries SET version_token = ?, generation = ? WHERE id = ? AND version_token = ? AND dropped_ms IS NULL"
)
LOG_VERSION: Final = "UPDATE entry_commits SET version_token = ?, commit_id = ? WHERE entry = ? AND generation = ?"

# -- quarantine ---------------------------------------------------------------------------------------------------

_QUARANTINED: Final = "bucket, held_key, key, entry, job, kind, size, moved_ms, purge_ms"
INSERT_QUARANTINED: Final = f"INSERT INTO quarantined_objects ({_QUARANTINED}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  # constants only, here and below
QUARANTINED_BY_JOB: Final = (
    f"SELECT {_QUARANTINED} FROM quarantined_objects WHERE job = ? AND held_key > ? ORDER BY held_key LIMIT ?"  # noqa: S608
)
QUARANTINED_DUE: Final = (
    f"SELECT {_QUARANTINED} FROM quarantined_objects WHERE purge_ms <= ? ORDER BY purge_ms, held_key LIMIT ?"  # noqa: S608
)
QUARANTINED_BY_KEY: Final = f"SELECT {_QUARANTINED} FROM quarantined_objects WHERE bucket = ? AND held_key = ?"  # noqa: S608
DELETE_QUARANTINED: Final = "DELETE FROM quarantined_objects WHERE bucket = ? AND held_key = ?"
EXTEND_QUARANTINE: Final = "UPDATE quarantined_objects SET purge_ms = ? WHERE bucket = ? AND held_key = ?"
QUARANTINED_OF_TABLE: Final = (
    "SELECT q.job, COUNT(*) FROM quarantined_objects q WHERE q.entry = ? GROUP BY q.job ORDER BY MAX(q.moved_ms) DESC"
)
BUCKET_BY_ID: Final = (
    "SELECT b.id, b.name, b.owner, b.region, b.created_ms, b.versioning, b.settings FROM buckets b WHERE b.id = ?"
)
