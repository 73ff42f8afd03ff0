-- Filtered, masked copies of tables, for those whom policies show a part. See docs/policies.md.

-- id is the copy's own entry, with which the row goes. source is the table: not by reference, since a copy of a table that
-- is gone has yet to be removed.
CREATE TABLE restricted_copies (
    id          {text}   NOT NULL PRIMARY KEY REFERENCES entries (id) ON DELETE CASCADE,
    source      {text}   NOT NULL,
    snapshot    {bigint} NOT NULL,
    -- Which policies, in which versions.
    restriction {text}   NOT NULL,
    -- What they come to for this snapshot: a digest.
    recipe      {text}   NOT NULL,
    -- Makes it; none before it was asked for.
    task        {bigint},
    created_ms  {bigint} NOT NULL,
    used_ms     {bigint} NOT NULL
);

CREATE UNIQUE INDEX restricted_copies_by_source ON restricted_copies (source, snapshot, restriction, recipe);
CREATE INDEX restricted_copies_by_use ON restricted_copies (used_ms);

-- Whether a warehouse has policies of a type attached anywhere: asked whenever somebody reads a table.
CREATE INDEX policy_attachments_of_type ON policy_attachments (warehouse, type);
