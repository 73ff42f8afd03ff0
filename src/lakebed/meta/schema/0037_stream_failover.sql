-- Failover of streams: which records only one server's disk has, and the servers that share this store. See ADR 45.
-- The offset from which on the tail server's disk alone has records. -1: not recorded, by an earlier release.
ALTER TABLE stream_logs ADD COLUMN uploaded_end {bigint} NOT NULL DEFAULT -1;
-- The end of the log when the tail server last recorded it; there may be more by now. -1: never recorded.
ALTER TABLE stream_logs ADD COLUMN recorded_end {bigint} NOT NULL DEFAULT -1;

CREATE INDEX stream_logs_by_tail_server ON stream_logs (tail_server) WHERE tail_server <> '';

CREATE TABLE stream_servers (
    -- As in stream_logs.tail_server.
    name           {text}   NOT NULL PRIMARY KEY,
    -- The server id in the protocol's metadata.
    number         {bigint} NOT NULL,
    address        {text}   NOT NULL,
    -- 1: acknowledges records once the object store has them.
    acks_uploaded  {bigint} NOT NULL,
    seen_ms        {bigint} NOT NULL,
    -- When it counts as down, unless it has reported by then.
    expires_ms     {bigint} NOT NULL,
    -- Why the records that only its disk has could not be uploaded at the last attempt. Empty: nothing failed.
    failure        {text}   NOT NULL
){clustered};
