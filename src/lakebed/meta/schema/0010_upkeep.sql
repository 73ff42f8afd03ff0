-- Upkeep of tables by policy: what workers say of their tasks, how each job went last, and what was looked at already.
-- See docs/adr/0014-scheduler-on-the-server.md.

-- Orders were written otherwise before there was anybody to carry them out.
DELETE FROM tasks WHERE kind = 'compact-table';

-- An attempt at a task, from its claim on. Apart from the queue, where every worker looks for work.
CREATE TABLE task_attempts (
    task          {bigint} NOT NULL PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE,
    began_ms      {bigint} NOT NULL,
    -- The version of the table that it began on: what was committed since, the job may not have seen.
    version_token {text}   NOT NULL,
    -- What the worker said last, as JSON.
    progress      {blob}
);

-- The last run of each job on a table.
CREATE TABLE upkeep_runs (
    entry         {text}   NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    job           {text}   NOT NULL,
    task          {bigint} NOT NULL,
    version_token {text}   NOT NULL,
    -- What it was told, so that the same is not told again of the same version.
    options       {text}   NOT NULL,
    succeeded_ms  {bigint},
    failures      {bigint} NOT NULL,
    failed_ms     {bigint},
    summary       {blob}   NOT NULL,
    PRIMARY KEY (entry, job)
) {clustered};

-- How fast each job has been lately, over all tables.
CREATE TABLE job_speeds (
    job              {text}   NOT NULL PRIMARY KEY,
    bytes_per_second {bigint} NOT NULL,
    measured_ms      {bigint} NOT NULL
) {clustered};

-- The version of a table that was planned last, under which policies, and when time alone may ask for more.
CREATE TABLE upkeep_looks (
    entry         {text}   NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    version_token {text}   NOT NULL,
    policies      {text}   NOT NULL,
    due_ms        {bigint} NOT NULL
) {clustered};
