"""Policy types: list, load, create, drop. An extension: Polaris has only predefined types, without routes."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.governance.policies import PolicyTargetKind, PolicyType, define_type, restrictions
from lakebed.governance.policies.content_schemas import CONTENT_SCHEMAS
from lakebed.governance.policies.maintenance_content import CONFIG_OPTIONS, SCHEMA_VERSION
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import StrictDocument, check_no_fields, read_strict_document
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok, page_response
from lakebed.wire.json.routing import Route

from ..services import PolarisServices

_encode = msgspec.json.Encoder().encode


class NewTypeDocument(StrictDocument):
    """The body of createPolicyType."""

    name: str
    schema: dict[str, Any]
    """A JSON schema, checked by `define_type`."""
    description: str | None = None
    inheritable: bool = True
    targets: list[PolicyTargetKind] | None = None


async def list_policy_types(services: PolarisServices, request: JsonRequest) -> Response:
    """List the policy types, including the predefined ones."""
    page = read_page(request.http, f"policy-types {request.catalog}")
    found = await services.policy_types.list(request.caller, request.catalog, after=page.after, limit=page.limit)
    types = [type_document(one) for one in found.items]
    return page_response(page, {"policy-types": types}, found.items[-1].name if found.truncated else None)


async def create_policy_type(services: PolarisServices, request: JsonRequest) -> Response:
    """Create a policy type."""
    document = await read_strict_document(request, NewTypeDocument)
    kind = define_type(
        document.name,
        document.schema,
        inheritable=document.inheritable,
        targets=tuple(PolicyTargetKind) if document.targets is None else tuple(document.targets),
        description=document.description,
        now_ms=services.clock.now_ms(),
    )
    await services.policy_types.create(request.mutation, request.catalog, kind, _encode_response)
    return ok(_response(kind))


async def load_policy_type(services: PolarisServices, request: JsonRequest) -> Response:
    """Load a policy type."""
    found = await services.policy_types.get(request.caller, request.catalog, request.names["type"])
    return ok(_response(found))


async def drop_policy_type(services: PolarisServices, request: JsonRequest) -> Response:
    """Drop a policy type without policies."""
    await check_no_fields(request)
    await services.policy_types.drop(request.mutation, request.catalog, request.names["type"])
    return no_content()


def type_document(kind: PolicyType) -> dict[str, Any]:
    """A policy type as JSON, with the schema of its content, or the options of a predefined type."""
    document: dict[str, Any] = {
        "name": kind.name,
        "inheritable": kind.inheritable,
        "targets": kind.targets,
        "system": kind.is_system,
    }
    if kind.description is not None:
        document["description"] = kind.description
    if kind.name in CONTENT_SCHEMAS:
        document["content-version"] = restrictions.SCHEMA_VERSION
        document["schema"] = CONTENT_SCHEMAS[kind.name]
    elif kind.schema is None:
        document["content-version"] = SCHEMA_VERSION
        document["config"] = {name: option.parser.expected for name, option in CONFIG_OPTIONS[kind.name].items()}
    else:
        document["schema"] = msgspec.Raw(kind.schema)
        document["created-at-ms"] = kind.created_ms
    return document


def _response(kind: PolicyType) -> dict[str, Any]:
    return {"policy-type": type_document(kind)}


def _encode_response(kind: PolicyType) -> bytes:
    return _encode(_response(kind))


_ALL = "/polaris/v1/{warehouse}/policy-types"
_ONE = _ALL + "/{type}"

ROUTES = (
    Route("listPolicyTypes", "GET", _ALL, list_policy_types, is_standard=False),
    Route("createPolicyType", "POST", _ALL, create_policy_type, is_standard=False, changes=True),
    Route("loadPolicyType", "GET", _ONE, load_policy_type, is_standard=False),
    Route("dropPolicyType", "DELETE", _ONE, drop_policy_type, is_standard=False, changes=True),
)
