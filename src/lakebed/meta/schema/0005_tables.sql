-- The Iceberg catalog: warehouses, namespaces, tables and views. See docs/adr/0013-one-catalog-transaction.md.

-- Buckets that are enabled for tables.
CREATE TABLE warehouses (
    bucket     {bigint} NOT NULL PRIMARY KEY REFERENCES buckets (id) ON DELETE CASCADE,
    enabled_ms {bigint} NOT NULL,
    properties {blob}   NOT NULL
);

-- path is the levels joined by 0x1F; parent is the path without its last level.
CREATE TABLE namespaces (
    id         {serial},
    warehouse  {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    path       {text}   NOT NULL,
    parent     {text}   NOT NULL,
    properties {blob}   NOT NULL,
    created_ms {bigint} NOT NULL
);

CREATE UNIQUE INDEX namespaces_by_path ON namespaces (warehouse, path);
CREATE INDEX namespaces_by_parent ON namespaces (warehouse, parent, path);

-- Tables and views: one name space, so one table. A dropped one that can be restored keeps its name.
CREATE TABLE entries (
    id              {text}   NOT NULL PRIMARY KEY,
    kind            {text}   NOT NULL,
    warehouse       {bigint} NOT NULL REFERENCES warehouses (bucket) ON DELETE CASCADE,
    namespace       {bigint} NOT NULL REFERENCES namespaces (id),
    name            {text}   NOT NULL,
    uuid            {text}   NOT NULL,
    format_version  {bigint} NOT NULL,
    location        {text}   NOT NULL,
    -- Where the current metadata file is: the one mutable pointer, moved by commits alone.
    metadata_at     {text}   NOT NULL,
    version_token   {text}   NOT NULL,
    generation      {bigint} NOT NULL,
    created_ms      {bigint} NOT NULL,
    updated_ms      {bigint} NOT NULL,
    protected       {bigint} NOT NULL,
    -- Set while a dropped one waits: until when it can be restored, and whether its files go then.
    dropped_ms      {bigint},
    expires_ms      {bigint},
    purge           {bigint} NOT NULL
);

CREATE UNIQUE INDEX entries_by_name ON entries (namespace, name);
CREATE INDEX entries_by_expiry ON entries (expires_ms);
-- Whether a file is some entry's current metadata: asked before one is overwritten or deleted through S3.
CREATE INDEX entries_by_metadata ON entries (metadata_at);

-- The directories of tables and views, ending in a slash: none lies inside another. Those of an entry that is gone
-- stay until its files are purged, so that nobody moves in meanwhile.
CREATE TABLE entry_locations (
    bucket {bigint} NOT NULL,
    prefix {text}   NOT NULL,
    entry  {text}   NOT NULL,
    PRIMARY KEY (bucket, prefix)
);

CREATE INDEX entry_locations_by_entry ON entry_locations (entry);

-- What moved each pointer: written in the transaction that moved it.
CREATE TABLE entry_commits (
    entry           {text}   NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    generation      {bigint} NOT NULL,
    commit_id       {text}   NOT NULL,
    operation       {text}   NOT NULL,
    writer          {text}   NOT NULL,
    previous_at     {text},
    metadata_at     {text}   NOT NULL,
    expected_token  {text},
    version_token   {text}   NOT NULL,
    request_digest  {text}   NOT NULL,
    requirements    {blob}   NOT NULL,
    committed_ms    {bigint} NOT NULL,
    PRIMARY KEY (entry, generation)
);

CREATE UNIQUE INDEX entry_commits_by_id ON entry_commits (entry, commit_id);

-- Answers to requests that carried an Idempotency-Key, kept for a while.
CREATE TABLE idempotency_keys (
    id         {text}   NOT NULL PRIMARY KEY,
    request    {text}   NOT NULL,
    answer     {blob}   NOT NULL,
    created_ms {bigint} NOT NULL
);

CREATE INDEX idempotency_keys_by_age ON idempotency_keys (created_ms);

-- Scan and commit reports of engines.
CREATE TABLE table_reports (
    seq         {serial},
    entry       {text}   NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    kind        {text}   NOT NULL,
    report      {blob}   NOT NULL,
    principal   {text}   NOT NULL,
    received_ms {bigint} NOT NULL
);

CREATE INDEX table_reports_by_entry ON table_reports (entry, seq);
CREATE INDEX table_reports_by_age ON table_reports (received_ms);
