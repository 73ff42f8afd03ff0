"""What a decision point is told: the document that Apache Polaris posts to Open Policy Agent, filled with what we know.

    {"input": {"actor": {"principal": …, "roles": […], …},
               "action": "s3tables:GetTableData",
               "resource": {"targets": [{"type": "TABLE_LIKE", "name": "t", "parents": […], …}], "secondaries": []},
               "context": {"request_id": …, "realm": …, "privileges": […], "facts": {…}}}}

Every question is about one thing. An operation on two things, such as a renaming, is two questions, so that
`secondaries` is always empty; it is there because policies that were written for Polaris look at it.

A document is built from a `DecisionQuery` and the request id alone, so that equal queries share a cached decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.access import AccessRequest, AccessTarget, Principal, ResourceRules

from ..rbac.privileges import Privilege

ROOT: Final = AccessTarget("ROOT", ())
"""The server as a whole."""

_OF_THE_MOMENT: Final = frozenset({"s3:signatureage", "s3:x-amz-content-sha256"})
"""Facts that are others with every request, and say nothing about who may do what."""

_S3: Final = "arn:aws:s3:::"
_NAMES: Final = {int(privilege): privilege.name for privilege in Privilege}
_encode: Final = msgspec.json.Encoder().encode

Facts = tuple[tuple[str, str | tuple[str, ...]], ...]


class DecisionQuery(NamedTuple):
    """A question, without the request that it comes of."""

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
        """The question that the authorizer was asked, for somebody else."""
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
            tuple(sorted(item for item in request.context.items() if item[0].lower() not in _OF_THE_MOMENT)),
        )


def decision_document(asked: DecisionQuery, request_id: str) -> bytes:
    """What is posted."""
    return _encode({"input": _input(asked, [_entity(asked.target, asked.resource)], request_id)})


def batch_document(asked: DecisionQuery, targets: Sequence[AccessTarget], request_id: str) -> bytes:
    """What is posted to ask about many targets at once."""
    return _encode({"input": _input(asked, [_entity(target) for target in targets], request_id)})


def target_of(resource: str) -> AccessTarget:
    """What an ARN names."""
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


def _input(asked: DecisionQuery, targets: list[dict[str, Any]], request_id: str) -> dict[str, Any]:
    return {
        "actor": {
            "principal": asked.principal,
            "roles": asked.roles,
            "type": asked.kind,
            "id": asked.user_id,
            "arn": asked.arn,
            "tags": dict(asked.tags),
        },
        "action": asked.action,
        "resource": {"targets": targets, "secondaries": []},
        "context": {
            "request_id": request_id,
            "realm": asked.realm,
            "privileges": [_NAMES.get(number, str(number)) for number in asked.privileges],
            "facts": dict(asked.facts),
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
