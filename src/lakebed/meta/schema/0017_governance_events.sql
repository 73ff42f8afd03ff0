-- Operations and those who are told of them. See docs/adr/0019-governance-events.md.

-- Of which operation an event came: UPDATE_TABLE, and nothing for what the server did by itself.
ALTER TABLE outbox ADD COLUMN operation {text} NOT NULL DEFAULT '';

-- Who has events posted. Those that the settings name are not here.
CREATE TABLE webhooks (
    name        {text}   NOT NULL PRIMARY KEY,
    url         {text}   NOT NULL,
    -- Sealed by the vault.
    secret      {blob}   NOT NULL,
    -- Which events: names and beginnings of names, with commas between them.
    kinds       {text}   NOT NULL,
    created_ms  {bigint} NOT NULL,
    changed_ms  {bigint} NOT NULL
);

-- What could not be delivered at once. An event waits here with a copy of itself, since its row in the outbox may go, and
-- with it all later ones of its lane; one that was given up is kept as a dead letter.
CREATE TABLE webhook_deliveries (
    webhook     {text}   NOT NULL,
    seq         {bigint} NOT NULL,
    -- What the order is kept within: a table.
    lane        {text}   NOT NULL,
    kind        {text}   NOT NULL,
    subject     {text}   NOT NULL,
    payload     {blob}   NOT NULL,
    occurred_ms {bigint} NOT NULL,
    operation   {text}   NOT NULL,
    state       {text}   NOT NULL,
    attempts    {bigint} NOT NULL,
    due_ms      {bigint} NOT NULL,
    failure     {text}   NOT NULL,
    changed_ms  {bigint} NOT NULL,
    PRIMARY KEY (webhook, seq)
);

CREATE INDEX webhook_deliveries_by_lane ON webhook_deliveries (webhook, lane, seq) WHERE state = 'waiting';
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (changed_ms) WHERE state = 'dead';
