-- What every service stands on: the outbox, leases and the task queue.

CREATE TABLE outbox (
  seq {serial},
  kind {text} NOT NULL,
  subject {text} NOT NULL,
  payload {blob} NOT NULL,
  occurred_ms {bigint} NOT NULL
);

-- How far each named reader has come; what all of them passed may be trimmed.
CREATE TABLE outbox_cursors (
  name {text} PRIMARY KEY,
  seq {bigint} NOT NULL
) {clustered};

-- A released lease keeps its row: its token must never be given out twice.
CREATE TABLE leases (
  name {text} PRIMARY KEY,
  holder {text} NOT NULL,
  token {bigint} NOT NULL,
  expires_ms {bigint} NOT NULL
) {clustered};

-- due_ms is when somebody may claim it: a ready task's start, a claimed one's expiry.
CREATE TABLE tasks (
  id {serial},
  kind {text} NOT NULL,
  dedupe {text},
  payload {blob} NOT NULL,
  state {text} NOT NULL,
  due_ms {bigint} NOT NULL,
  attempts {bigint} NOT NULL,
  max_attempts {bigint} NOT NULL,
  token {bigint} NOT NULL,
  worker {text},
  outcome {blob},
  created_ms {bigint} NOT NULL,
  changed_ms {bigint} NOT NULL
);

CREATE INDEX tasks_due ON tasks (kind, due_ms, id) WHERE state IN ('ready', 'claimed');

CREATE INDEX tasks_ended ON tasks (changed_ms) WHERE state IN ('done', 'dead');

CREATE UNIQUE INDEX tasks_dedupe ON tasks (kind, dedupe) WHERE dedupe IS NOT NULL AND state IN ('ready', 'claimed');
