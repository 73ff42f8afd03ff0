"""Trace of access delegation: vended credentials and signatures, and the requests made with them."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.identifiers import check_namespace, levels_of, path_of
from lakebed.core.errors import InvalidInput
from lakebed.events.delegation_audit import TracedAccess
from lakebed.governance.delegation.delegated_accesses import AccessGroup
from lakebed.governance.delegation.delegations import DelegationFilter, DelegationRecord
from lakebed.wire.http.message import Request, Response
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Route

from .. import paging
from ..queries import check_parameters
from ..services import AdminServices

_NEWEST = (1 << 63) - 1
_FILTERS = ("principal", "request-id", "catalog", "namespace", "table")
_pages = paging.CursorPages("delegations", int)
_access_pages = paging.CursorPages("object accesses", AccessGroup)


async def list_delegations(services: AdminServices, request: JsonRequest) -> Response:
    """List delegations, newest first."""
    http = request.http
    check_parameters(http, (*_FILTERS, *paging.PARAMETERS))
    filters = " ".join(f"{name}={http.query[name]}" for name in _FILTERS if name in http.query)
    page = _pages.read(http, filters)
    found = await services.delegation_audit.list_delegations(
        request.caller, _filter(http), before=_NEWEST if page.after is None else page.after, limit=page.limit + 1
    )
    items, last = page.cut(found, lambda one: one.seq)
    return page.response({"delegations": [delegation_document(one) for one in items]}, last)


async def get_delegation(services: AdminServices, request: JsonRequest) -> Response:
    """Get the delegation of an access key."""
    check_parameters(request.http, ())
    return ok(delegation_document(await services.delegation_audit.get(request.caller, request.names["delegation"])))


async def list_delegated_accesses(services: AdminServices, request: JsonRequest) -> Response:
    """List the requests made with an access key."""
    check_parameters(request.http, paging.PARAMETERS)
    delegation = request.names["delegation"]
    page = _access_pages.read(request.http, delegation)
    found = await services.delegation_audit.of_delegation(
        request.caller, delegation, after=page.after, limit=page.limit + 1
    )
    return _accesses(page, found)


async def list_object_accesses(services: AdminServices, request: JsonRequest) -> Response:
    """List the requests made for an object with delegated access."""
    http = request.http
    check_parameters(http, ("bucket", "key", *paging.PARAMETERS))
    bucket, key = http.query.get("bucket", ""), http.query.get("key", "")
    if not bucket:
        raise InvalidInput("bucket is required", argument="bucket")
    page = _access_pages.read(http, f"{bucket}/{key}")
    found = await services.delegation_audit.of_object(
        request.caller, bucket, key, after=page.after, limit=page.limit + 1
    )
    return _accesses(page, found)


def delegation_document(delegation: DelegationRecord) -> dict[str, Any]:  # Any: JSON
    """A delegation as JSON, without secrets."""
    purpose = delegation.purpose
    document: dict[str, Any] = {
        "id": delegation.id,
        "kind": purpose.kind,
        "principal": delegation.principal,
        "user-id": delegation.user_id,
        "arn": delegation.arn,
        "obtained-with": delegation.lasting_key,
        "request-id": purpose.request_id,
        "remote": purpose.remote,
        "catalog": purpose.catalog,
        "namespace": levels_of(purpose.namespace),
        "table": purpose.name,
        "table-id": delegation.table_id,
        "prefixes": [f"s3://{delegation.bucket}/{directory}" for directory in delegation.directories],
        "actions": ["read", "write"] if delegation.writes else ["read"],
        "issued-ms": delegation.issued_ms,
        "expires-ms": delegation.expires_ms,
    }
    if purpose.method:
        document["signed-request"] = f"{purpose.method} {purpose.target}"
    return document


def _accesses(page: paging.CursorPage[AccessGroup], found: list[TracedAccess]) -> Response:
    items, last = page.cut(found, lambda one: one.access.group)
    return page.response({"accesses": [_access_document(one) for one in items]}, last)


def _access_document(traced: TracedAccess) -> dict[str, Any]:  # Any: JSON
    access, delegation = traced.access, traced.delegation
    document: dict[str, Any] = {
        "bucket": access.group.bucket,
        "key": access.group.key,
        "operation": access.group.operation,
        "status": access.group.status,
        "requests": access.requests,
        "received-bytes": access.received_bytes,
        "sent-bytes": access.sent_bytes,
        "first-ms": access.first_ms,
        "last-ms": access.last_ms,
        "last-request-id": access.last_request_id,
        "delegation": access.group.delegation,
        "principal": access.recipient.principal,
        "table-id": access.recipient.table_id,
        "request-id": access.recipient.obtained_by,
        # Without the record, only the four fields above are known: they are in the session token.
        "issue-recorded": delegation is not None,
    }
    if delegation is not None:
        purpose = delegation.purpose
        document |= {
            "kind": purpose.kind,
            "catalog": purpose.catalog,
            "namespace": levels_of(purpose.namespace),
            "table": purpose.name,
        }
    return document


def _filter(http: Request) -> DelegationFilter:
    """The filters of a list. Raises InvalidInput for a namespace without a catalog, a table without a namespace."""
    query = http.query
    catalog, namespace, table = query.get("catalog", ""), query.get("namespace", ""), query.get("table", "")
    if namespace and not catalog:
        raise InvalidInput("namespace requires catalog", argument="catalog")
    if table and not namespace:
        raise InvalidInput("table requires namespace", argument="namespace")
    return DelegationFilter(
        principal=query.get("principal", ""),
        request_id=query.get("request-id", ""),
        catalog=catalog,
        namespace=path_of(check_namespace(split_namespace(namespace))) if namespace else "",
        name=table,
    )


ROUTES = (
    Route("listDelegations", "GET", "/v1/delegations", list_delegations, is_standard=False),
    Route("getDelegation", "GET", "/v1/delegations/{delegation}", get_delegation, is_standard=False),
    Route(
        "listDelegatedAccesses",
        "GET",
        "/v1/delegations/{delegation}/accesses",
        list_delegated_accesses,
        is_standard=False,
    ),
    Route("listObjectAccesses", "GET", "/v1/object-accesses", list_object_accesses, is_standard=False),
)
