-- Maintenance jobs that are queued or running hold a task of the task queue, by table: its lease is theirs.
-- See docs/adr/0052-one-maintenance-system.md.

-- Jobs of earlier releases had leases of their own. What they hold is held on for the default lease; what has ended
-- holds nothing. A job's status is in its document alone: it is found by the bytes of its key and value in MessagePack.
INSERT INTO tasks (kind, dedupe, payload, state, due_ms, attempts, max_attempts, token, created_ms, changed_ms)
SELECT 'remove-unreferenced-files', j.entry,
{sqlite}       CAST(j.id AS BLOB),
{postgres}       convert_to(j.id, 'UTF8'),
       'claimed', j.changed_ms + 900000, 1, 1, 0, j.changed_ms, j.changed_ms
FROM maintenance_states s JOIN maintenance_jobs j ON j.id = s.current_job
{sqlite}WHERE instr(j.job, x'a6737461747573a6515545554544') > 0 OR instr(j.job, x'a6737461747573a752554e4e494e47') > 0;
{postgres}WHERE position('\xa6737461747573a6515545554544'::bytea IN j.job) > 0
{postgres}   OR position('\xa6737461747573a752554e4e494e47'::bytea IN j.job) > 0;
