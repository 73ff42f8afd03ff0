"""The operations of the management API: their routes, and how operation hooks read their subjects."""

from __future__ import annotations

from typing import Final

import msgspec

from lakebed.wire.json.intents import IntentReader, IntentReaders
from lakebed.wire.json.path_names import OperationSubject
from lakebed.wire.json.request import JsonRequest, parse_document
from lakebed.wire.json.routing import Mount, RouteTable

from .documents import CatalogRoleDocument, GrantRequest, PrincipalRoleDocument
from .handlers import catalog_roles, catalogs, principal_roles, principals
from .handlers.principals import NewPrincipal
from .services import ManagementServices

BASE: Final = "/api/management"


def management_mount() -> Mount[ManagementServices]:
    """The routes under `/api/management/v1/`."""
    routes = [
        *principals.ROUTES,
        *principal_roles.ROUTES,
        *catalogs.ROUTES,
        *catalog_roles.ROUTES,
    ]
    return Mount(BASE, "/v1/", RouteTable(routes), "management")


class _CatalogName(msgspec.Struct):
    name: str


class _CreatedCatalog(msgspec.Struct):
    catalog: _CatalogName


def _granted(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    grant = parse_document(request.body, GrantRequest).grant
    target = grant.target
    facts = {
        **subject.facts,
        "privilege": grant.parsed_privilege.name,
        "target-type": target.kind.value,
        "target": ".".join((*target.namespace, target.name)).strip("."),
    }
    return subject._replace(facts=facts)


def _new_principal(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return subject._replace(name=parse_document(request.body, NewPrincipal).principal.name)


def _new_principal_role(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return subject._replace(name=parse_document(request.body, PrincipalRoleDocument).principal_role.name)


def _new_catalog_role(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return subject._replace(name=parse_document(request.body, CatalogRoleDocument).catalog_role.name)


def _assigned_role(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    role = parse_document(request.body, PrincipalRoleDocument).principal_role.name
    return subject._replace(facts={**subject.facts, "principal-role": role})


def _assigned_catalog_role(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    role = parse_document(request.body, CatalogRoleDocument).catalog_role.name
    return subject._replace(facts={**subject.facts, "catalog-role": role})


def _new_catalog(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return subject._replace(catalog=parse_document(request.body, _CreatedCatalog).catalog.name)


INTENT_READERS: Final[IntentReaders] = {
    "addGrantToCatalogRole": IntentReader(_granted),
    "revokeGrantFromCatalogRole": IntentReader(_granted),
    "createPrincipal": IntentReader(_new_principal),
    "createPrincipalRole": IntentReader(_new_principal_role),
    "createCatalogRole": IntentReader(_new_catalog_role),
    "assignPrincipalRole": IntentReader(_assigned_role),
    "assignCatalogRoleToPrincipalRole": IntentReader(_assigned_catalog_role),
    "createCatalog": IntentReader(_new_catalog),
}
"""By route name."""
