"""The framework of all JSON APIs: routing, requests, responses, errors, paging, idempotency, operation hooks.

Every route runs inside `operation_hooks`. `route_operations` names its operation; if a listener hooks that, `intents`
reads the resources from the request and `governance.listeners` calls the hook. A veto ends the request with 403 and the
reason. During the handler, `core.operations` has the operation, which the outbox stores with each event. Refused and
failed attempts are buffered by `wire.audit.refusals` and written for the audit log by `governance.refusal_records`.
"""
