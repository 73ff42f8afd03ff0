-- What targets are sent that ask for every request. See docs/adr/0027-request-log.md.

ALTER TABLE targets ADD COLUMN requests {bigint} NOT NULL DEFAULT 0;

-- As the outbox has it, and apart from it: requests commit with nothing, and nobody else reads them.
CREATE TABLE request_log (
    seq         {serial},
    kind        {text}   NOT NULL,
    subject     {text}   NOT NULL,
    payload     {blob}   NOT NULL,
    occurred_ms {bigint} NOT NULL,
    operation   {text}   NOT NULL
);

-- Numbered from where no event comes to (2^52, which JSON still holds exactly), so that what waits for a target is told
-- apart by its number alone.
{sqlite} INSERT INTO sqlite_sequence (name, seq) VALUES ('request_log', 4503599627370495);
{postgres} ALTER TABLE request_log ALTER COLUMN seq RESTART WITH 4503599627370496;

-- By target, how far each has come. While there is none, no request is written down.
CREATE TABLE request_log_cursors (
    name {text} PRIMARY KEY,
    seq  {bigint} NOT NULL
) {clustered};
