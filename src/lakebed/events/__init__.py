"""Events: records and forms, the event log, the request log, rules of buckets, delivery to targets, and the live feed.

A change appends its event to the outbox in its own transaction. Reads change nothing: if a rule or a listener
subscribes to them, they are buffered and appended together a moment later. Rules of a bucket have versions, each valid
from a sequence number of the outbox; delivery matches an event with the version of its number (`rules`) and formats it
for the target (`forms`). A rule with a `pipeline` target starts a job that adds the file to a table. Live listeners
share reads of the outbox with all others at the same position (`live.feed`).

If a target subscribes to requests, the HTTP layer records each one, `wire.audit.redaction` builds the audit record, and
`write_behind` appends batches to the request log, which is stored apart from the outbox (ADR 27). Delivery reads both
logs; a target that falls too far behind loses the oldest requests, never events.
"""
