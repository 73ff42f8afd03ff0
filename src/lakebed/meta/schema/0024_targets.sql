-- Targets of every kind in the place of webhooks, which are one of them. See docs/events.md.

-- Where events go. Those that the settings name are not here.
CREATE TABLE targets (
    name        {text}   NOT NULL,
    type        {text}   NOT NULL,
    -- JSON, without what is secret.
    settings    {text}   NOT NULL,
    -- What is secret, JSON too, sealed by the vault. Of a webhook that was stored before: its secret alone.
    secrets     {blob}   NOT NULL,
    form        {text}   NOT NULL,
    -- What it asks for by itself: names and beginnings of names, with commas between them.
    kinds       {text}   NOT NULL,
    subject     {text}   NOT NULL,
    audit       {bigint} NOT NULL,
    is_paused   {bigint} NOT NULL,
    created_ms  {bigint} NOT NULL,
    changed_ms  {bigint} NOT NULL,
    PRIMARY KEY (name, type)
);

INSERT INTO targets (name, type, settings, secrets, form, kinds, subject, audit, is_paused, created_ms, changed_ms)
SELECT name, 'webhook',
{sqlite} json_object('endpoint', url),
{postgres} json_build_object('endpoint', url)::text,
    secret, '', kinds, '', 0, 0, created_ms, changed_ms
FROM webhooks;

DROP TABLE webhooks;

-- The bucket rule that asked for an event is told with it, in every attempt.
ALTER TABLE webhook_deliveries RENAME TO deliveries;
ALTER TABLE deliveries RENAME COLUMN webhook TO target;
ALTER TABLE deliveries ADD COLUMN rule {text} NOT NULL DEFAULT '';
UPDATE deliveries SET target = target || ':webhook';

DROP INDEX webhook_deliveries_by_lane;
DROP INDEX webhook_deliveries_dead;
CREATE INDEX deliveries_by_lane ON deliveries (target, lane, seq) WHERE state = 'waiting';
CREATE INDEX deliveries_dead ON deliveries (changed_ms) WHERE state = 'dead';

UPDATE outbox_cursors SET name = 'target ' || substr(name, 9) || ':webhook' WHERE substr(name, 1, 8) = 'webhook ';
DELETE FROM leases WHERE name = 'webhooks';
