-- Streams: what is named. See docs/adr/0029-streams.md. Records never are in here.
CREATE TABLE stream_databases (
    name        {text}   NOT NULL PRIMARY KEY,
    -- JSON: the comment, and properties that mean nothing to us. Empty: neither.
    document    {text}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    modified_ms {bigint} NOT NULL
){clustered};

-- Clients that name no database mean this one.
INSERT INTO stream_databases (name, document, created_ms, modified_ms)
VALUES ('fluss', '', {now_ms}, {now_ms});

CREATE TABLE stream_tables (
    -- Never given out twice: files of logs are found by it.
    id            {serial},
    database_name {text}   NOT NULL REFERENCES stream_databases,
    name          {text}   NOT NULL,
    -- The newest of its schemas.
    schema_id     {bigint} NOT NULL,
    -- JSON: all that the table's document says, but for the schema.
    document      {text}   NOT NULL,
    created_ms    {bigint} NOT NULL,
    modified_ms   {bigint} NOT NULL,
    UNIQUE (database_name, name)
);

CREATE TABLE stream_schemas (
    table_id  {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    schema_id {bigint} NOT NULL,
    document  {text}   NOT NULL,
    PRIMARY KEY (table_id, schema_id)
){clustered};

CREATE TABLE stream_partitions (
    -- Never given out twice, of whichever table.
    id         {serial},
    table_id   {bigint} NOT NULL REFERENCES stream_tables ON DELETE CASCADE,
    -- The values of the partition keys, joined by `$`.
    name       {text}   NOT NULL,
    created_ms {bigint} NOT NULL,
    UNIQUE (table_id, name)
);

-- What was dropped and has files still. The home of streams removes them, and then the row.
CREATE TABLE stream_dropped (
    table_id       {bigint} NOT NULL,
    -- 0: the table itself.
    partition_id   {bigint} NOT NULL,
    database_name  {text}   NOT NULL,
    table_name     {text}   NOT NULL,
    partition_name {text}   NOT NULL,
    dropped_ms     {bigint} NOT NULL,
    PRIMARY KEY (table_id, partition_id)
){clustered};

-- Numbers that are handed out in ranges, each once: ids of writers, values of auto-increment columns.
CREATE TABLE stream_counters (
    name       {text}   NOT NULL PRIMARY KEY,
    next_value {bigint} NOT NULL
){clustered};
