"""The intents of a request: the operations and subjects that are sent to listeners before the request is handled.

Names are parsed exactly as in handlers, with the same types: a difference would be a way around a veto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec

from lakebed.catalog.identifiers import check_identifier, check_namespace
from lakebed.core.operations import Operation, OperationFamily
from lakebed.governance.listeners import Intent

from .path_names import OperationSubject, subject_of_path
from .request import JsonRequest, parse_document

_CONFIDENTIAL: Final = frozenset(
    {OperationFamily.PRINCIPAL, OperationFamily.CATALOG, OperationFamily.NOTIFICATION, OperationFamily.TASK_EXECUTION}
)
"""Families whose documents may contain secrets or worker credentials: listeners get only the names."""

ReadSubject = Callable[[JsonRequest, OperationSubject], OperationSubject]
"""Completes the subject of the path from the document or query. Raises InvalidInput."""

ReadFurther = Callable[[JsonRequest, OperationSubject], Sequence[tuple[Operation, OperationSubject]]]
"""Reads the operations that happen together with the route's own. Raises InvalidInput."""


class IntentReader(NamedTuple):
    """Reads the intents of a route that its path does not determine."""

    subject: ReadSubject | None = None
    further: ReadFurther | None = None
    further_operations: frozenset[Operation] = frozenset()
    """All operations that `further` may add."""
    is_confidential: bool = False
    """Whether listeners get no document."""


IntentReaders = Mapping[str, IntentReader]
"""Readers by the name of the route."""

_BY_PATH: Final = IntentReader()


class IntentSource:
    """Reads the intents of requests."""

    def __init__(self, readers: IntentReaders) -> None:
        self._readers = readers

    def operations(self, route: str, operation: Operation) -> frozenset[Operation]:
        """All operations that a route may intend."""
        return self._readers.get(route, _BY_PATH).further_operations | {operation}

    def read(self, route: str, operation: Operation, request: JsonRequest, now_ms: int) -> Sequence[Intent]:
        """The intents of a request: one operation, or several that are applied together. Raises InvalidInput."""
        reader = self._readers.get(route, _BY_PATH)
        subject = subject_of_path(request.names)
        if "namespace" in request.names:
            check_namespace(subject.namespace)
        if reader.subject is not None:
            subject = reader.subject(request, subject)
        intended = [(operation, subject)]
        if reader.further is not None:
            intended.extend(reader.further(request, subject))
        return [_intent(one, request, of, now_ms, is_confidential=reader.is_confidential) for one, of in intended]


def _intent(
    operation: Operation, request: JsonRequest, subject: OperationSubject, now_ms: int, *, is_confidential: bool
) -> Intent:
    caller = request.caller
    has_document = operation.family not in _CONFIDENTIAL and not is_confidential
    return Intent(
        operation=operation,
        event_id=str(uuid4()),
        occurred_ms=now_ms,
        principal=caller.principal.name,
        principal_arn=caller.principal.caller_arn,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
        catalog=subject.catalog,
        namespace=subject.namespace,
        name=subject.name,
        facts=subject.facts,
        document=request.body if has_document else b"",
    )


class _NewEntity(msgspec.Struct):
    """The name in the body of a create request."""

    name: str


def new_entry(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    """The subject of a create request for a table or view: the document's name in the namespace of the path."""
    identifier = check_identifier(subject.namespace, parse_document(request.body, _NewEntity).name)
    return subject._replace(namespace=identifier.namespace, name=identifier.name)


def new_entity(request: JsonRequest, subject: OperationSubject) -> OperationSubject:
    """The subject of a create request for another entity: the document's name in the namespace of the path."""
    return subject._replace(name=parse_document(request.body, _NewEntity).name)
