"""Policy mappings: attach and detach policies, list their targets, and list the applicable policies of a target."""

from __future__ import annotations

from typing import Literal

import msgspec

from lakebed.catalog.policies.attachments import TargetName
from lakebed.core.errors import InvalidInput
from lakebed.core.paging import PageTokens
from lakebed.governance.policies.inheritance import sort_key
from lakebed.wire.http.message import Response
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.policy_documents import applicable_document, mapping_document
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import no_content, page_response
from lakebed.wire.json.routing import Route

from ..services import PolarisServices
from .policies import policy_type


class PolicyTargetDocument(msgspec.Struct):
    """The target of a policy."""

    type: Literal["catalog", "namespace", "table-like"]
    path: list[str] | None = None

    @property
    def target(self) -> TargetName:
        """The target by name. Raises InvalidName, InvalidInput."""
        path = self.path or []
        if self.type == "catalog":
            if path:
                raise InvalidInput("a catalog has no path", argument="path")
            return TargetName()
        if self.type == "namespace":
            if not path:
                raise InvalidInput("the path of a namespace requires at least one level", argument="path")
            return TargetName.of(path)
        if len(path) < 2 or not path[-1]:
            raise InvalidInput("the path of a table or view requires a namespace and a name", argument="path")
        return TargetName.of(path[:-1], path[-1])


class AttachmentDocument(msgspec.Struct):
    """The body of attachPolicy."""

    target: PolicyTargetDocument
    parameters: dict[str, str] | None = None


class DetachmentDocument(msgspec.Struct):
    """The body of detachPolicy."""

    target: PolicyTargetDocument


async def attach_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Attach a policy to a target."""
    document = await request.document(AttachmentDocument)
    await services.attachments.attach(
        request.mutation,
        request.catalog,
        request.namespace,
        request.names["policy-name"],
        document.target.target,
        document.parameters or {},
    )
    return no_content()


async def detach_policy(services: PolarisServices, request: JsonRequest) -> Response:
    """Detach a policy from a target."""
    document = await request.document(DetachmentDocument)
    await services.attachments.detach(
        request.mutation, request.catalog, request.namespace, request.names["policy-name"], document.target.target
    )
    return no_content()


async def list_mappings(services: PolarisServices, request: JsonRequest) -> Response:
    """List the targets of a policy."""
    policy = request.names["policy-name"]
    page = read_page(request.http, f"mappings {request.catalog} {request.names['namespace']} {policy}")
    found = await services.attachments.targets(
        request.caller, request.catalog, request.namespace, policy, after=page.after, limit=page.limit
    )
    mappings = [mapping_document(one) for one in found.items]
    return page_response(page, {"mappings": mappings}, found.items[-1].key if found.truncated else None)


async def get_applicable_policies(services: PolarisServices, request: JsonRequest) -> Response:
    """List the policies that apply to a catalog, namespace, table or view, and why."""
    query = request.http.query
    namespace, name, kind = query.get("namespace", ""), query.get("target-name", ""), policy_type(request)
    if name and not namespace:
        raise InvalidInput("target-name requires namespace", argument="namespace")
    page = read_page(request.http, f"applicable {request.catalog} {namespace} {name} {kind}")
    target = TargetName.of(split_namespace(namespace) if namespace else (), name)
    found = await services.attachments.applicable(request.caller, request.catalog, target, kind=kind)
    after = _positions.decode(page.after) if page.after else None
    rest = found if after is None else [one for one in found if sort_key(one) > after]
    policies = rest[: page.limit]
    last = _positions.encode(sort_key(policies[-1])) if len(rest) > len(policies) else None
    return page_response(page, {"applicable-policies": [applicable_document(one) for one in policies]}, last)


_positions = PageTokens("applicable policies", tuple[bool, str, tuple[str, ...], str])


_MAPPINGS = "/polaris/v1/{warehouse}/namespaces/{namespace}/policies/{policy-name}/mappings"

ROUTES = (
    Route("attachPolicy", "PUT", _MAPPINGS, attach_policy, changes=True),
    Route("detachPolicy", "POST", _MAPPINGS, detach_policy, changes=True),
    Route("listPolicyMappings", "GET", _MAPPINGS, list_mappings, is_standard=False),
    Route("getApplicablePolicies", "GET", "/polaris/v1/{warehouse}/applicable-policies", get_applicable_policies),
)
