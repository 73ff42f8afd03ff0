"""Policy versions: list, load. An extension: Polaris keeps only the latest version."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.policies.policy_versions import LATEST
from lakebed.core.errors import NoSuchPolicy
from lakebed.governance.policies import PolicyVersion
from lakebed.wire.http.message import Response
from lakebed.wire.json.paging import read_page
from lakebed.wire.json.policy_documents import policy_document
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import ok, page_response
from lakebed.wire.json.routing import Route

from ..services import PolarisServices

_MAX_DIGITS = 18


async def list_policy_versions(services: PolarisServices, request: JsonRequest) -> Response:
    """List the versions of a policy, the latest first, without their contents."""
    policy = request.names["policy-name"]
    page = read_page(request.http, f"versions {request.catalog} {request.names['namespace']} {policy}")
    found = await services.policy_versions.list(
        request.caller,
        request.catalog,
        request.namespace,
        policy,
        before=int(page.after) if page.after else LATEST,
        limit=page.limit,
    )
    last = str(found.items[-1].version) if found.truncated else None
    return page_response(page, {"versions": [version_document(one) for one in found.items]}, last)


async def load_policy_version(services: PolarisServices, request: JsonRequest) -> Response:
    """Load a version of a policy."""
    policy, version = await services.policy_versions.get(
        request.caller, request.catalog, request.namespace, request.names["policy-name"], _version(request)
    )
    return ok({"policy": policy_document(policy) | version_document(version)})


def version_document(version: PolicyVersion) -> dict[str, Any]:
    """A version as JSON: when and by which principal it was created."""
    document: dict[str, Any] = {"version": version.version, "created-at-ms": version.created_ms}
    if version.description is not None:
        document["description"] = version.description
    if version.principal:
        document["created-by"] = version.principal
    return document


def _version(request: JsonRequest) -> int:
    """The version in the path. Raises NoSuchPolicy for text that is not a number."""
    text = request.names["version"]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise NoSuchPolicy(f"policy version must be a whole number. version={text[:80]}")
    return int(text)


_ALL = "/polaris/v1/{warehouse}/namespaces/{namespace}/policies/{policy-name}/versions"

ROUTES = (
    Route("listPolicyVersions", "GET", _ALL, list_policy_versions, is_standard=False),
    Route("loadPolicyVersion", "GET", _ALL + "/{version}", load_policy_version, is_standard=False),
)
