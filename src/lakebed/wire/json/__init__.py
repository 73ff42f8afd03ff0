"""The framework of all JSON APIs: routing, requests, responses, errors, paging, idempotency, operation hooks.

Every route runs inside `operation_hooks`. `route_operations` maps it to an operation. If a listener registered for it,
`intents` reads the resources from the request and `governance.listeners` calls the hook; a veto ends the request with
403 and the reason. During the handler, `core.operations` has the operation, which the outbox stores with each event.
`wire.audit.refusals` buffers refused and failed requests; `governance.refusal_records` writes them to the audit log.
"""
