"""What a request intends, read of its path and document for those who are asked before it happens.

Names are read exactly as handlers read them, by the same types: a request that is understood otherwise here than there
would be a way around a veto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import uuid4

import msgspec

from lakebed.core.operations import Family
from lakebed.core.operations import Operation as Op
from lakebed.governance.listeners import Intent
from lakebed.tables.identifiers import check_identifier, check_namespace, display
from lakebed.wire.iceberg.delegation import HEADER as DELEGATION
from lakebed.wire.iceberg.extensions import parse_extension
from lakebed.wire.iceberg.handlers.dropped import DroppedName, PurgeName
from lakebed.wire.iceberg.handlers.tables import CommitDocument, RenameDocument
from lakebed.wire.iceberg.handlers.transactions import read_transaction
from lakebed.wire.management.documents import GrantRequest
from lakebed.wire.management.handlers.catalog_roles import NewCatalogRole as NewCatalogRole
from lakebed.wire.management.handlers.principal_roles import CatalogRoleAssignment
from lakebed.wire.management.handlers.principal_roles import NewPrincipalRole as NewPrincipalRole
from lakebed.wire.management.handlers.principals import NewPrincipal, RoleAssignment
from lakebed.wire.polaris.handlers.mappings import DetachmentDocument

from .path_names import OperationSubject, subject_of_path
from .request import JsonRequest, parse_document, split_namespace

_CONFIDENTIAL: Final = frozenset({Family.PRINCIPAL, Family.CATALOG, Family.NOTIFICATION, Family.TASK_EXECUTION})
"""Families whose documents may hold secrets, or what only a worker is to know: listeners are told names alone."""

_CONFIDENTIAL_ROUTES: Final = frozenset(
    {"putTableBridge", "syncTableBridge", "importTable", "signRequest", "signS3Request"}
)

_HANDS_OUT_KEYS: Final = frozenset(
    {"loadTable", "createTable", "registerTable", "planTableScan", "fetchPlanningResult"}
)
"""Routes that answer with keys to files besides, if the client asks for these."""

_MAY_CREATE: Final = frozenset({"updateTable", "commitTransaction"})
"""Routes that make a table where the commit asserts that there is none."""

_OF_EITHER_KIND: Final[Mapping[str, Op]] = {"restoreDropped": Op.REGISTER_VIEW, "purgeDropped": Op.DROP_VIEW}
"""Routes that do not say whether they are about a table or a view: both are asked about."""

_ASSERT_CREATE: Final = "assert-create"


class _NewNamespace(msgspec.Struct):
    namespace: list[str]


class _New(msgspec.Struct):
    """Whatever is made in a namespace has its name there."""

    name: str


class _Requirement(msgspec.Struct):
    type: str = ""


class _Signed(msgspec.Struct):
    method: str
    uri: str


class _NewCatalogBody(msgspec.Struct):
    name: str


class _NewCatalog(msgspec.Struct):
    catalog: _NewCatalogBody


def read_intents(route: str, operation: Op, request: JsonRequest, now_ms: int) -> Sequence[Intent]:
    """What the request intends: one operation, or several that happen together. Raises InvalidInput."""
    by_path = subject_of_path(request.names)
    if "namespace" in request.names:
        check_namespace(by_path.namespace)
    read = _READERS.get(route)
    named = by_path if read is None else read(request, by_path)
    intended = [(operation, named)]
    if route == "commitTransaction":
        # Whoever minds a change of one of the tables minds the whole.
        for change in read_transaction(request.body).table_changes:
            identifier = change.identifier.identifier
            table = OperationSubject(named.catalog, identifier.namespace, identifier.name)
            intended.append((Op.CREATE_TABLE if _creates(change.requirements) else Op.UPDATE_TABLE, table))
    elif route == "updateTable" and _creates(parse_document(request.body, CommitDocument).requirements):
        intended.append((Op.CREATE_TABLE, named))
    elif route in _OF_EITHER_KIND:
        intended.append((_OF_EITHER_KIND[route], named))
    if route in _HANDS_OUT_KEYS and DELEGATION in request.http.headers:
        intended.append((Op.LOAD_CREDENTIALS, named))
    return [_intent(route, one, request, of, now_ms) for one, of in intended]


def operations_of(route: str, operation: Op) -> frozenset[Op]:
    """All operations that a route may intend."""
    found = {operation}
    if route in _MAY_CREATE:
        found |= {Op.UPDATE_TABLE, Op.CREATE_TABLE}
    if route in _OF_EITHER_KIND:
        found.add(_OF_EITHER_KIND[route])
    if route in _HANDS_OUT_KEYS:
        found.add(Op.LOAD_CREDENTIALS)
    return frozenset(found)


def _creates(requirements: msgspec.Raw) -> bool:
    """Whether a commit asserts that there is no table yet. Raises InvalidInput."""
    text = bytes(requirements)
    return bool(text) and any(one.type == _ASSERT_CREATE for one in parse_document(text, list[_Requirement]))


def _intent(route: str, operation: Op, request: JsonRequest, named: OperationSubject, now_ms: int) -> Intent:
    caller = request.caller
    is_open = operation.family not in _CONFIDENTIAL and route not in _CONFIDENTIAL_ROUTES
    return Intent(
        operation=operation,
        event_id=str(uuid4()),
        occurred_ms=now_ms,
        principal=caller.principal.name,
        principal_arn=caller.principal.caller_arn,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
        catalog=named.catalog,
        namespace=named.namespace,
        name=named.name,
        facts=named.facts,
        document=request.body if is_open else b"",
    )


_Reader = Callable[[JsonRequest, OperationSubject], OperationSubject]


def _new_namespace(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(namespace=check_namespace(parse_document(request.body, _NewNamespace).namespace))


def _new_entry(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    identifier = check_identifier(by_path.namespace, parse_document(request.body, _New).name)
    return by_path._replace(namespace=identifier.namespace, name=identifier.name)


def _new_policy(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(name=parse_document(request.body, _New).name)


def _renamed(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    asked = parse_document(request.body, RenameDocument)
    source, destination = asked.source.identifier, asked.destination.identifier
    facts = {"destination-namespace": display(destination.namespace), "destination-name": destination.name}
    return by_path._replace(namespace=source.namespace, name=source.name, facts=facts)


def _restored(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return _of_dropped(parse_extension(request.body, DroppedName), by_path)


def _purged(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return _of_dropped(parse_extension(request.body, PurgeName), by_path)


def _of_dropped(asked: DroppedName, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(namespace=asked.identifier.namespace, name=asked.identifier.name)


def _signed(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    asked = parse_document(request.body, _Signed)
    # Without its query, which may hold a signature.
    return by_path._replace(facts={"method": asked.method, "uri": asked.uri.partition("?")[0]})


def _attached(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    target = parse_document(request.body, DetachmentDocument).target
    facts = {"target-type": target.type, "target": display(target.path or [])}
    return by_path._replace(facts=facts)


def _applicable(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    query = request.http.query
    namespace = query.get("namespace", "")
    return by_path._replace(
        namespace=split_namespace(namespace) if namespace else (), name=query.get("target-name", "")
    )


def _granted(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    grant = parse_document(request.body, GrantRequest).grant
    target = grant.target
    facts = {
        **by_path.facts,
        "privilege": grant.held.name,
        "target-type": target.kind.value,
        "target": ".".join((*target.namespace, target.name)).strip("."),
    }
    return by_path._replace(facts=facts)


def _new_principal(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(name=parse_document(request.body, NewPrincipal).principal.name)


def _new_principal_role(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(name=parse_document(request.body, NewPrincipalRole).principal_role.name)


def _new_catalog_role(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(name=parse_document(request.body, NewCatalogRole).catalog_role.name)


def _assigned_role(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    role = parse_document(request.body, RoleAssignment).principal_role.name
    return by_path._replace(facts={**by_path.facts, "principal-role": role})


def _assigned_catalog_role(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    role = parse_document(request.body, CatalogRoleAssignment).catalog_role.name
    return by_path._replace(facts={**by_path.facts, "catalog-role": role})


def _new_catalog(request: JsonRequest, by_path: OperationSubject) -> OperationSubject:
    return by_path._replace(catalog=parse_document(request.body, _NewCatalog).catalog.name)


_READERS: Final[Mapping[str, _Reader]] = {
    "createNamespace": _new_namespace,
    "createTable": _new_entry,
    "registerTable": _new_entry,
    "createView": _new_entry,
    "registerView": _new_entry,
    "createGenericTable": _new_entry,
    "createPolicy": _new_policy,
    "renameTable": _renamed,
    "renameView": _renamed,
    "restoreDropped": _restored,
    "purgeDropped": _purged,
    "signRequest": _signed,
    "signS3Request": _signed,
    "attachPolicy": _attached,
    "detachPolicy": _attached,
    "getApplicablePolicies": _applicable,
    "addGrantToCatalogRole": _granted,
    "revokeGrantFromCatalogRole": _granted,
    "createPrincipal": _new_principal,
    "createPrincipalRole": _new_principal_role,
    "createCatalogRole": _new_catalog_role,
    "assignPrincipalRole": _assigned_role,
    "assignCatalogRoleToPrincipalRole": _assigned_catalog_role,
    "createCatalog": _new_catalog,
}
"""Routes whose document, or query, says what they are about."""
