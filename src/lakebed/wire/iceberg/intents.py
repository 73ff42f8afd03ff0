"""Reads the operation and subject of Iceberg requests for operation hooks, where the path does not have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from lakebed.catalog.identifiers import check_namespace, display
from lakebed.core.operations import Operation
from lakebed.wire.json.documents import parse_strict_document
from lakebed.wire.json.intents import IntentReader, IntentReaders, ReadFurther, new_entry
from lakebed.wire.json.path_names import OperationSubject
from lakebed.wire.json.request import JsonRequest, parse_document

from .delegation import HEADER
from .handlers.dropped import DroppedName, PurgeName
from .handlers.tables import CommitDocument, RenameDocument
from .handlers.transactions import read_transaction

_ASSERT_CREATE: Final = "assert-create"

_Intended = Sequence[tuple[Operation, OperationSubject]]


class _NewNamespace(msgspec.Struct):
    namespace: list[str]


class _RequirementType(msgspec.Struct):
    type: str = ""


class _SignedRequest(msgspec.Struct):
    method: str
    uri: str


def _new_namespace(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return subject._replace(namespace=check_namespace(parse_document(request.body, _NewNamespace).namespace))


def _renamed(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    document = parse_document(request.body, RenameDocument)
    source, destination = document.source.identifier, document.destination.identifier
    facts = {"destination-namespace": display(destination.namespace), "destination-name": destination.name}
    return subject._replace(namespace=source.namespace, name=source.name, facts=facts)


def _restored(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return _dropped(parse_strict_document(request.body, DroppedName), subject)


def _purged(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    return _dropped(parse_strict_document(request.body, PurgeName), subject)


def _dropped(document: DroppedName, subject: OperationSubject) -> OperationSubject:
    return subject._replace(namespace=document.identifier.namespace, name=document.identifier.name)


def _signed(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    document = parse_document(request.body, _SignedRequest)
    # Without the query, which may contain a signature.
    return subject._replace(facts={"method": document.method, "uri": document.uri.partition("?")[0]})


def _committed_tables(request: JsonRequest, subject: OperationSubject) -> _Intended:
    """The tables of a transaction. A veto for one table vetoes the transaction."""
    intended = []
    for change in read_transaction(request.body).table_changes:
        identifier = change.identifier.identifier
        table = OperationSubject(subject.catalog, identifier.namespace, identifier.name)
        operation = Operation.CREATE_TABLE if _creates(change.requirements) else Operation.UPDATE_TABLE
        intended.append((operation, table))
    return intended


def _created_by_commit(request: JsonRequest, subject: OperationSubject) -> _Intended:
    is_creation = _creates(parse_document(request.body, CommitDocument).requirements)
    return [(Operation.CREATE_TABLE, subject)] if is_creation else []


def _creates(requirements: msgspec.Raw) -> bool:
    """Whether a commit asserts that the table does not exist yet. Raises InvalidInput."""
    text = bytes(requirements)
    return bool(text) and any(one.type == _ASSERT_CREATE for one in parse_document(text, list[_RequirementType]))


def _vended(request: JsonRequest, subject: OperationSubject) -> _Intended:
    return [(Operation.LOAD_CREDENTIALS, subject)] if HEADER in request.http.headers else []


def _same_for_views(operation: Operation) -> ReadFurther:
    """The operation for views: the route does not distinguish tables from views, so hooks are called for both."""
    return lambda _, subject: [(operation, subject)]


_VENDS: Final = frozenset({Operation.LOAD_CREDENTIALS})

INTENT_READERS: Final[IntentReaders] = {
    "createNamespace": IntentReader(_new_namespace),
    "createTable": IntentReader(new_entry, _vended, _VENDS),
    "registerTable": IntentReader(new_entry, _vended, _VENDS),
    "loadTable": IntentReader(None, _vended, _VENDS),
    "planTableScan": IntentReader(None, _vended, _VENDS),
    "fetchPlanningResult": IntentReader(None, _vended, _VENDS),
    "updateTable": IntentReader(None, _created_by_commit, frozenset({Operation.CREATE_TABLE})),
    "commitTransaction": IntentReader(
        None, _committed_tables, frozenset({Operation.CREATE_TABLE, Operation.UPDATE_TABLE})
    ),
    "createView": IntentReader(new_entry),
    "registerView": IntentReader(new_entry),
    "renameTable": IntentReader(_renamed),
    "renameView": IntentReader(_renamed),
    "restoreDropped": IntentReader(
        _restored, _same_for_views(Operation.REGISTER_VIEW), frozenset({Operation.REGISTER_VIEW})
    ),
    "purgeDropped": IntentReader(_purged, _same_for_views(Operation.DROP_VIEW), frozenset({Operation.DROP_VIEW})),
    "signRequest": IntentReader(_signed, is_confidential=True),
    "signS3Request": IntentReader(_signed, is_confidential=True),
    "signCatalogRequest": IntentReader(_signed, is_confidential=True),
    "putTableBridge": IntentReader(is_confidential=True),
    "syncTableBridge": IntentReader(is_confidential=True),
    "importTable": IntentReader(is_confidential=True),
}
"""By route name."""
