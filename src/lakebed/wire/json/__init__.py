"""The framework of all JSON APIs: routing, requests, responses, errors, paging, idempotency, operation hooks."""
