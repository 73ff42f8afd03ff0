-- Maintenance of tables: what is configured, the jobs, and what they moved aside. See docs/maintenance.md.

-- What a table bucket sets for tables that set nothing. background says whether the server sees to them by itself; the
-- configuration says so too, but not to a statement about many tables. So it does below.
CREATE TABLE maintenance_defaults (
    warehouse  {bigint} NOT NULL PRIMARY KEY REFERENCES warehouses (bucket) ON DELETE CASCADE,
    background {bigint} NOT NULL,
    config     {blob}   NOT NULL
);

CREATE TABLE maintenance_configs (
    entry      {text}   NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    background {bigint} NOT NULL,
    config     {blob}   NOT NULL
);

-- job changes with every heartbeat; findings, which may be long, once or twice.
CREATE TABLE maintenance_jobs (
    seq         {serial},
    id          {text}   NOT NULL UNIQUE,
    entry       {text}   NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    job         {blob}   NOT NULL,
    findings    {blob}   NOT NULL,
    changed_ms  {bigint} NOT NULL
);

CREATE INDEX maintenance_jobs_by_entry ON maintenance_jobs (entry, seq);
CREATE INDEX maintenance_jobs_by_age ON maintenance_jobs (changed_ms);

-- current_job is the one that stands for a table: at most one is queued or running. The background looks at a table
-- when due_ms has come, and not while its version is still idle_token, at which there was nothing left to do.
CREATE TABLE maintenance_states (
    entry       {text}   NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    current_job {text},
    due_ms      {bigint} NOT NULL,
    idle_token  {text}   NOT NULL
);

-- Objects that a job moved aside. They outlive their table: only time or an operator removes them.
CREATE TABLE quarantined_objects (
    bucket   {bigint} NOT NULL REFERENCES buckets (id) ON DELETE CASCADE,
    held_key {text}   NOT NULL,
    key      {text}   NOT NULL,
    entry    {text}   NOT NULL,
    job      {text}   NOT NULL,
    kind     {text}   NOT NULL,
    size     {bigint} NOT NULL,
    moved_ms {bigint} NOT NULL,
    purge_ms {bigint} NOT NULL,
    PRIMARY KEY (bucket, held_key)
) {clustered};

CREATE INDEX quarantined_objects_by_job ON quarantined_objects (job, held_key);
CREATE INDEX quarantined_objects_by_entry ON quarantined_objects (entry);
CREATE INDEX quarantined_objects_by_purge ON quarantined_objects (purge_ms);
