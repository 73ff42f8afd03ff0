-- Streams: what the byte store has of each log, and who has what it has not. See docs/adr/0030-logs.md.
CREATE TABLE stream_logs (
    table_id     {bigint} NOT NULL,
    -- 0: the table has no partitions.
    partition_id {bigint} NOT NULL,
    bucket       {bigint} NOT NULL,
    -- Under which keys the byte store has whatever it has of it.
    folder       {text}   NOT NULL,
    -- The home that opened it last.
    epoch        {bigint} NOT NULL,
    -- The server whose disk may have acknowledged records that the byte store has not. Empty: there are none.
    tail_server  {text}   NOT NULL,
    -- Under which key the segments in the byte store are listed. Empty: there are none.
    manifest     {text}   NOT NULL,
    PRIMARY KEY (table_id, partition_id, bucket)
){clustered};
