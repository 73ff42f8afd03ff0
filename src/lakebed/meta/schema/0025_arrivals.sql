-- Files that arrived and are to be added to tables, until a job has added them. See docs/events.md.

CREATE TABLE arrivals (
    -- The table, by the names of its warehouse, its namespace and itself.
    destination {text}   NOT NULL,
    -- The number of the event that told of the file.
    event       {bigint} NOT NULL,
    source      {text}   NOT NULL,
    version     {text}   NOT NULL,
    etag        {text}   NOT NULL,
    bytes       {bigint} NOT NULL,
    format      {text}   NOT NULL,
    PRIMARY KEY (destination, event)
) {clustered};
