"""External catalogs (ADR 55): federation, bridges and notifications, over one client for Iceberg REST catalogs.

A request to a federated catalog: `wire.json.federation` selects the backend before the handler runs, and answers 406
for operations that cannot be forwarded. `federation` authorizes the request as for a local table; grants are on a local
entity that the first grant creates. `remote.client` sends a new request, built from the validated one, with the
credentials of the connection. Refusals become errors of this server with their message (`remote.errors`); vended
credentials are removed unless the caller has the permission. A forwarded change commits locally with its event and the
response of its idempotency key. If that fails, or the response was lost, the outcome is reported as unknown.
"""
