"""Read-only views of policies: attachments of a policy, the effect of attaching it, and tables without policies."""

from __future__ import annotations

from typing import Any

from lakebed.catalog.identifiers import Levels, check_namespace
from lakebed.catalog.policies.attachments import TargetName
from lakebed.catalog.policies.coverage import AffectedEntry, AttachmentChange
from lakebed.core.errors import InvalidInput
from lakebed.governance.policies import EffectivePolicyChange
from lakebed.wire.http.message import Request, Response
from lakebed.wire.json.policy_documents import applicable_document, mapping_document, target_document
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.routing import Route

from .. import paging
from ..queries import check_parameters, choice_parameter
from ..services import AdminServices

_target_pages = paging.CursorPages("policy targets", str)
_effect_pages = paging.CursorPages("policy effects", str)
_uncovered_pages = paging.CursorPages("tables without policies", str)


async def list_targets(services: AdminServices, request: JsonRequest) -> Response:
    """List the attachments of a policy."""
    http, policy = request.http, request.names["policy"]
    check_parameters(http, paging.PARAMETERS)
    page = _target_pages.read(http, _policy_filters(request))
    found = await services.attachments.targets(
        request.caller, request.catalog, request.namespace, policy, after=page.after or "", limit=page.limit
    )
    targets = [mapping_document(one) for one in found.items]
    return page.response({"targets": targets}, found.items[-1].key if found.truncated else None)


async def get_effect(services: AdminServices, request: JsonRequest) -> Response:
    """Preview attaching or detaching a policy: the tables and views that change, before and after."""
    http = request.http
    check_parameters(http, ("change", "namespace", "target-name", *paging.PARAMETERS))
    change, target = choice_parameter(http, "change", AttachmentChange) or AttachmentChange.ATTACH, _target(http)
    page = _effect_pages.read(http, f"{_policy_filters(request)} {change} {tuple(target)}")
    found = await services.coverage.effect(
        request.caller,
        request.catalog,
        request.namespace,
        request.names["policy"],
        target,
        change,
        after=page.after or "",
        limit=page.limit,
    )
    document: dict[str, object] = {
        "policy": {
            "namespace": found.policy.namespace,
            "name": found.policy.name,
            "policy-type": found.policy.type,
            "version": found.policy.version,
        },
        "change": change,
        "target": target_document(found.place),
        "affected": [_affected(one) for one in found.affected],
        "examined": found.progress.examined,
    }
    return page.response(document, found.progress.last_id if found.progress.truncated else None)


async def list_uncovered(services: AdminServices, request: JsonRequest) -> Response:
    """List the tables of a catalog or namespace to which no policy applies."""
    http = request.http
    check_parameters(http, ("warehouse", "namespace", "type", *paging.PARAMETERS))
    warehouse, kind = http.query.get("warehouse", ""), http.query.get("type", "")
    if not warehouse:
        raise InvalidInput("warehouse is required", argument="warehouse")
    namespace = _namespace(http)
    page = _uncovered_pages.read(http, f"{warehouse} {namespace} {kind}")
    found = await services.coverage.uncovered(
        request.caller, warehouse, namespace, kind=kind, after=page.after or "", limit=page.limit
    )
    document: dict[str, object] = {
        "tables": [
            {"namespace": one.namespace.levels, "table": one.entry.name, "entry": one.entry.id} for one in found.tables
        ],
        "examined": found.progress.examined,
    }
    return page.response(document, found.progress.last_id if found.progress.truncated else None)


def _policy_filters(request: JsonRequest) -> str:
    return f"{request.catalog} {request.names['namespace']} {request.names['policy']}"


def _namespace(http: Request) -> Levels:
    text = http.query.get("namespace", "")
    return check_namespace(split_namespace(text)) if text else ()


def _target(http: Request) -> TargetName:
    """The target in the query, named as in applicable-policies. Raises InvalidInput."""
    namespace, name = _namespace(http), http.query.get("target-name", "")
    if name and not namespace:
        raise InvalidInput("target-name requires namespace", argument="namespace")
    return TargetName.of(namespace, name)


def _affected(one: AffectedEntry) -> dict[str, Any]:
    *namespace, name = one.place.path
    return {
        "kind": one.place.kind,
        "namespace": namespace,
        "name": name,
        "changes": [_effect(effect) for effect in one.effects],
    }


def _effect(effect: EffectivePolicyChange) -> dict[str, Any]:
    return {
        "policy-type": effect.type,
        "from": None if effect.before is None else applicable_document(effect.before),
        "to": None if effect.after is None else applicable_document(effect.after),
        "why": effect.why,
    }


_POLICY = "/v1/policies/{warehouse}/{namespace}/{policy}"

ROUTES = (
    Route("listPolicyTargets", "GET", _POLICY + "/targets", list_targets, is_standard=False),
    Route("getPolicyEffect", "GET", _POLICY + "/effect", get_effect, is_standard=False),
    Route("listTablesWithoutPolicy", "GET", "/v1/tables/without-policy", list_uncovered, is_standard=False),
)
