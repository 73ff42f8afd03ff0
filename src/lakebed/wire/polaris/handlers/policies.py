"""Policies: create, list, load, update, drop."""

from __future__ import annotations

from typing import Any

import msgspec

from lakebed.catalog.policies.policies import NewPolicy
from lakebed.core.unset import UNSET
from lakebed.governance.policies import Policy
from lakebed.wire.http.message import Response
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.policy_documents import policy_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok, page_response
from lakebed.wire.json.routing import Route

from ..services import PolarisServices

_encode = msgspec.json.Encoder().encode


class NewPolicyDocument(msgspec.Struct):
    """The body of createPolicy."""

    name: str
    type: str
    description: str | None = None
    content: str | None = None


class PolicyPatch(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """The body of patchPolicy."""

    current_policy_version: int
    description: str | msgspec.UnsetType | None = msgspec.UNSET
    content: str | msgspec.UnsetType | None = msgspec.UNSET


class PolicyUpdate(msgspec.Struct, rename="kebab"):
    """The body of updatePolicy."""

    current_policy_version: int
    description: str | None = None
    content: str | None = None


async def create_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Create a policy."""
    document = await request.document(NewPolicyDocument)
    created = await services.policies.create(
        request.mutation,
        request.catalog,
        request.namespace,
        NewPolicy(document.name, document.type, document.content, document.description),
        _encode_response,
    )
    return ok(_response(created))


async def list_policies(services: PolarisServices, request: JsonRequest) -> Response:
    """List the policies of a namespace, optionally of one type."""
    kind = policy_type(request)
    page = read_page(request.http, f"policies {request.catalog} {request.names['namespace']} {kind}")
    found = await services.policies.list(
        request.caller, request.catalog, request.namespace, kind=kind, after=page.after, limit=page.limit
    )
    identifiers = [{"namespace": found.namespace, "name": name} for name in found.names]
    return page_response(page, {"identifiers": identifiers}, found.names[-1] if found.truncated else None)


async def load_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Load a policy."""
    found = await services.policies.get(
        request.caller, request.catalog, request.namespace, request.names["policy-name"]
    )
    return ok(_response(found))


async def update_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Replace the description and content of a policy."""
    document = await request.document(PolicyUpdate)
    changed = await services.policies.update(
        request.mutation,
        request.catalog,
        request.namespace,
        request.names["policy-name"],
        description=document.description,
        content=document.content,
        current_version=document.current_policy_version,
        show=_encode_response,
    )
    return ok(_response(changed))


async def patch_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Change the given fields of a policy: description, content or both."""
    document = await request.document(PolicyPatch)
    changed = await services.policies.update(
        request.mutation,
        request.catalog,
        request.namespace,
        request.names["policy-name"],
        description=UNSET if document.description is msgspec.UNSET else document.description,
        content=UNSET if document.content is msgspec.UNSET else document.content,
        current_version=document.current_policy_version,
        show=_encode_response,
    )
    return ok(_response(changed))


async def drop_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Drop a policy, with its attachments if `detach-all` is true."""
    await services.policies.drop(
        request.mutation,
        request.catalog,
        request.namespace,
        request.names["policy-name"],
        detach_all=request.flag("detach-all"),
    )
    return no_content()


def policy_type(request: JsonRequest) -> str:
    """The requested policy type; empty for all types."""
    return request.http.query.get("policyType", "")


def _response(policy: Policy) -> dict[str, Any]:
    return {"policy": policy_document(policy)}


def _encode_response(policy: Policy) -> bytes:
    return _encode(_response(policy))


_ALL = "/polaris/v1/{warehouse}/namespaces/{namespace}/policies"
_ONE = _ALL + "/{policy-name}"

ROUTES = (
    Route("createPolicy", "POST", _ALL, create_policy, changes=True),
    Route("listPolicies", "GET", _ALL, list_policies),
    Route("loadPolicy", "GET", _ONE, load_policy),
    Route("updatePolicy", "PUT", _ONE, update_policy, changes=True),
    Route("patchPolicy", "PATCH", _ONE, patch_policy, is_standard=False, changes=True),
    Route("dropPolicy", "DELETE", _ONE, drop_policy, changes=True),
)
