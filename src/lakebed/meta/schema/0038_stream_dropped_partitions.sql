-- Names of partitions that were dropped, for as long as writers are remembered. A partition that is created again under
-- such a name gets batches that a writer numbered for the one before it.
CREATE TABLE stream_dropped_partitions (
    table_id   {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    name       {text}   NOT NULL,
    dropped_ms {bigint} NOT NULL,
    PRIMARY KEY (table_id, name)
){clustered};
