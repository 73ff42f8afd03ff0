-- Snapshots of the keys of buckets, whose files are in the byte store, and who still needs them.
CREATE TABLE stream_key_snapshots (
    table_id     {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    -- 0: the table has none.
    partition_id {bigint} NOT NULL,
    bucket       {bigint} NOT NULL,
    -- Of the bucket, upwards.
    id           {bigint} NOT NULL,
    -- Where the changes begin that it does not have.
    log_offset   {bigint} NOT NULL,
    -- None: not counted.
    row_count    {bigint},
    -- Files with one name and one lineage are one file.
    lineage      {text}   NOT NULL,
    -- msgpack of (name, key in the byte store, size).
    files        {blob}   NOT NULL,
    taken_ms     {bigint} NOT NULL,
    PRIMARY KEY (table_id, partition_id, bucket, id)
){clustered};

CREATE TABLE stream_key_leases (
    id         {text}   NOT NULL PRIMARY KEY,
    expires_ms {bigint} NOT NULL
){clustered};

-- What leases keep: one snapshot of a bucket each.
CREATE TABLE stream_key_leased (
    lease_id     {text}   NOT NULL REFERENCES stream_key_leases ON DELETE CASCADE,
    table_id     {bigint} NOT NULL,
    partition_id {bigint} NOT NULL,
    bucket       {bigint} NOT NULL,
    snapshot_id  {bigint} NOT NULL,
    PRIMARY KEY (lease_id, table_id, partition_id, bucket)
){clustered};

CREATE INDEX stream_key_leased_by_bucket ON stream_key_leased (table_id, partition_id, bucket);
