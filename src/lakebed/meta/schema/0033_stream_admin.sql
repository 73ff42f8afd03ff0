-- What administers streams: grants on them, what was registered, set and agreed. See docs/adr/0031-stream-administration.md.

-- ACLs of streams, as the grants that they are. grantee says to whom in one word ('User alice', 'User *', 'Role 7');
-- principal or role say it to the store, which removes the row with them. Privileges are in governance/rbac/privileges.py.
CREATE TABLE stream_grants (
    grantee    {text}   NOT NULL,
    securable  {text}   NOT NULL,
    privilege  {bigint} NOT NULL,
    principal  {text}   REFERENCES principals (name) ON DELETE CASCADE,
    role       {bigint} REFERENCES principal_roles (id) ON DELETE CASCADE,
    granted_ms {bigint} NOT NULL,
    PRIMARY KEY (grantee, securable, privilege)
) {clustered};

CREATE INDEX stream_grants_by_securable ON stream_grants (securable);
CREATE INDEX stream_grants_by_principal ON stream_grants (principal);
CREATE INDEX stream_grants_by_role ON stream_grants (role);

-- Configs of the cluster that were set while it ran: they go before those that it was started with.
CREATE TABLE stream_configs (
    name   {text}   NOT NULL PRIMARY KEY,
    value  {text}   NOT NULL,
    set_ms {bigint} NOT NULL
);

CREATE TABLE stream_server_tags (
    server {bigint} NOT NULL PRIMARY KEY,
    tag    {bigint} NOT NULL,
    set_ms {bigint} NOT NULL
);

-- One row for each plan that was asked for; the one with the greatest id is the one that is told of.
CREATE TABLE stream_rebalances (
    id         {serial},
    name       {text}   NOT NULL UNIQUE,
    status     {bigint} NOT NULL,
    goals      {blob}   NOT NULL,
    created_ms {bigint} NOT NULL
);

-- Where the writes of a job end, registered once under its id and good until expires_ms. offsets: msgpack of lists of
-- (table id, partition id or nil, bucket, offset).
CREATE TABLE stream_producers (
    id         {text}   NOT NULL PRIMARY KEY,
    offsets    {blob}   NOT NULL,
    expires_ms {bigint} NOT NULL
);

CREATE INDEX stream_producers_by_expiry ON stream_producers (expires_ms);

-- How often a table was given to who tiers it, and when it was last in the lake. Only those that were.
CREATE TABLE stream_tiering (
    table_id  {bigint} NOT NULL PRIMARY KEY REFERENCES stream_tables ON DELETE CASCADE,
    epoch     {bigint} NOT NULL,
    tiered_ms {bigint}
);

-- How far tables are in the lake: offsets that were prepared for a commit there, by the name that the commit carries.
-- offsets: msgpack of (partition id or nil, bucket, offset).
CREATE TABLE stream_lake_offsets (
    name        {text}   NOT NULL PRIMARY KEY,
    table_id    {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    offsets     {blob}   NOT NULL,
    prepared_ms {bigint} NOT NULL
);

CREATE INDEX stream_lake_offsets_by_table ON stream_lake_offsets (table_id);

-- Snapshots of the lake that hold a table up to these offsets; and can be read up to those, if some are known.
CREATE TABLE stream_lake_snapshots (
    table_id     {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    snapshot_id  {bigint} NOT NULL,
    tiered       {text}   NOT NULL REFERENCES stream_lake_offsets (name),
    readable     {text}   REFERENCES stream_lake_offsets (name),
    -- Counts commits: ids of snapshots are not in their order.
    number       {bigint} NOT NULL,
    committed_ms {bigint} NOT NULL,
    PRIMARY KEY (table_id, snapshot_id)
);
