"""The operations on policies and generic tables: their routes, and how operation hooks read their subjects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.catalog.identifiers import display
from lakebed.wire.json.federation import FederatedHandler, federated_mount, list_nothing
from lakebed.wire.json.intents import IntentReader, IntentReaders, new_entity, new_entry
from lakebed.wire.json.path_names import OperationSubject
from lakebed.wire.json.request import JsonRequest, parse_document, split_namespace
from lakebed.wire.json.routing import CATALOG_BASES, Mount, RouteTable

from .handlers import generic_tables, mappings, policies, policy_types, policy_versions
from .handlers.mappings import DetachmentDocument
from .services import PolarisServices

ROOT: Final = "/polaris/v1/"

FEDERATED_HANDLERS: Final[Mapping[str, FederatedHandler[PolarisServices]]] = {
    "listPolicies": list_nothing,
    "listGenericTables": list_nothing,
}
"""Federated catalogs have no policies or generic tables: lists are empty, and other operations are refused."""


def polaris_routes() -> RouteTable[PolarisServices]:
    """The routes."""
    return RouteTable(
        [
            *policies.ROUTES,
            *mappings.ROUTES,
            *policy_types.ROUTES,
            *policy_versions.ROUTES,
            *generic_tables.ROUTES,
        ]
    )


def polaris_mounts(routes: RouteTable[PolarisServices]) -> list[Mount[PolarisServices]]:
    """The routes under every base path of the catalog."""
    return [federated_mount(Mount(base, ROOT, routes, "polaris"), FEDERATED_HANDLERS) for base in CATALOG_BASES]


def polaris_endpoints(routes: RouteTable[PolarisServices]) -> list[str]:
    """The endpoints that the catalog's configuration lists for Polaris clients."""
    return [route.endpoint for route in routes.routes if route.is_standard]


def _attached(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    target = parse_document(request.body, DetachmentDocument).target
    return subject._replace(facts={"target-type": target.type, "target": display(target.path or [])})


def _applicable(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    query = request.http.query
    namespace = query.get("namespace", "")
    return subject._replace(
        namespace=split_namespace(namespace) if namespace else (), name=query.get("target-name", "")
    )


INTENT_READERS: Final[IntentReaders] = {
    "createGenericTable": IntentReader(new_entry),
    "createPolicy": IntentReader(new_entity),
    "attachPolicy": IntentReader(_attached),
    "detachPolicy": IntentReader(_attached),
    "getApplicablePolicies": IntentReader(_applicable),
}
"""By route name."""
