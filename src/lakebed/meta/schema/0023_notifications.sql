-- Which events of a bucket go where, and who listens to them now. See docs/adr/0025-events.md.

-- A configuration holds for the events of its bucket after `since_seq`, up to that of the next one. By name, as events
-- have it: a bucket that was removed has a last version without a document.
CREATE TABLE notification_versions (
    bucket    {text}   NOT NULL,
    since_seq {bigint} NOT NULL,
    document  {blob},
    PRIMARY KEY (bucket, since_seq)
) {clustered};

-- What live listeners of each process ask for of what changes nothing, and is told of only if somebody asks.
CREATE TABLE event_listeners (
    holder     {text}   NOT NULL,
    -- Empty for those who listen to all buckets.
    bucket     {text}   NOT NULL,
    mask       {bigint} NOT NULL,
    expires_ms {bigint} NOT NULL,
    PRIMARY KEY (holder, bucket)
) {clustered};
