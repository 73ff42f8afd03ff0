"""The input document of a decision point, in the format that Apache Polaris posts to Open Policy Agent.

    {"input": {"actor": {"principal": …, "roles": […], …},
               "action": "s3tables:GetTableData",
               "resource": {"targets": [{"type": "TABLE_LIKE", "name": "t", "parents": […], …}], "secondaries": []},
               "context": {"request_id": …, "realm": …, "privileges": […], "facts": {…}}}}

Every query has one target. An operation on two, such as a rename, makes two queries, so `secondaries` is always empty;
policies written for Polaris read it.

A document is built from a `DecisionQuery` and the request id alone, so that equal queries share a cached decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.access import AccessRequest, AccessTarget, Principal, ResourceRules

from ..rbac.privileges import Privilege

ROOT: Final = AccessTarget("ROOT", ())
"""The server."""

_PER_REQUEST: Final = frozenset({"s3:signatureage", "s3:x-amz-content-sha256"})
"""Context keys that differ between requests and are irrelevant to authorization."""

_S3: Final = "arn:aws:s3:::"
_NAMES: Final = {int(privilege): privilege.name for privilege in Privilege}
_encode: Final = msgspec.json.Encoder().encode

Facts = tuple[tuple[str, str | tuple[str, ...]], ...]


class DecisionQuery(NamedTuple):
    """The request-independent part of a query."""

    principal: str
    user_id: str
    arn: str
    kind: str
    roles: tuple[str, ...]
    tags: tuple[tuple[str, str], ...]
    action: str
    resource: str
    target: AccessTarget
    realm: str
    privileges: tuple[int, ...]
    facts: Facts

    @classmethod
    def of(cls, request: AccessRequest, rules: ResourceRules) -> DecisionQuery:
        """From a request to the authorizer."""
        caller = request.principal
        session = caller.session
        return cls(
            caller.name,
            caller.user_id,
            caller.caller_arn,
            _kind(caller),
            () if caller.grants is None else caller.grants.roles,
            () if session is None else session.tags,
            request.action,
            request.resource,
            target_of(request.resource) if request.target is None else request.target,
            rules.owner,
            request.privileges,
            tuple(sorted(item for item in request.context.items() if item[0].lower() not in _PER_REQUEST)),
        )


def decision_document(query: DecisionQuery, request_id: str) -> bytes:
    """The body of a query."""
    return _encode({"input": _input(query, [_entity(query.target, query.resource)], request_id)})


def batch_document(query: DecisionQuery, targets: Sequence[AccessTarget], request_id: str) -> bytes:
    """The body of a query for many targets."""
    return _encode({"input": _input(query, [_entity(target) for target in targets], request_id)})


def target_of(resource: str) -> AccessTarget:
    """The target that an ARN names."""
    if resource.startswith(_S3):
        bucket, slash, key = resource.removeprefix(_S3).partition("/")
        if slash:
            return AccessTarget("OBJECT", (bucket, key))
        return ROOT if bucket == "*" else AccessTarget("BUCKET", (bucket,))
    parts = resource.split(":", 5)
    if len(parts) < 6:
        return ROOT
    kind, slash, name = parts[5].partition("/")
    if parts[2] == "s3tables" and kind == "bucket":
        return AccessTarget("CATALOG", (name.partition("/")[0],))
    return AccessTarget(kind.upper(), (name,)) if slash else ROOT


def _kind(caller: Principal) -> str:
    if caller.is_anonymous:
        return "anonymous"
    return "root" if caller.is_root else "user"


def _input(query: DecisionQuery, targets: list[dict[str, Any]], request_id: str) -> dict[str, Any]:
    return {
        "actor": {
            "principal": query.principal,
            "roles": query.roles,
            "type": query.kind,
            "id": query.user_id,
            "arn": query.arn,
            "tags": dict(query.tags),
        },
        "action": query.action,
        "resource": {"targets": targets, "secondaries": []},
        "context": {
            "request_id": request_id,
            "realm": query.realm,
            "privileges": [_NAMES.get(number, str(number)) for number in query.privileges],
            "facts": dict(query.facts),
        },
    }


def _entity(target: AccessTarget, resource: str = "") -> dict[str, Any]:
    path = target.path
    entity: dict[str, Any] = {
        "type": target.kind,
        "name": path[-1] if path else "",
        "parents": [{"type": _parent_kind(target.kind, depth), "name": name} for depth, name in enumerate(path[:-1])],
    }
    if resource:
        entity["arn"] = resource
    return entity


def _parent_kind(kind: str, depth: int) -> str:
    if kind == "OBJECT":
        return "BUCKET"
    return "NAMESPACE" if depth else "CATALOG"
