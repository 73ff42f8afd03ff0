"""The intents of requests about policies and generic tables, where they are not in the path."""

from __future__ import annotations

from typing import Final

from lakebed.catalog.identifiers import display
from lakebed.wire.json.intents import IntentReader, IntentReaders, new_entity, new_entry
from lakebed.wire.json.path_names import OperationSubject
from lakebed.wire.json.request import JsonRequest, parse_document, split_namespace

from .handlers.mappings import DetachmentDocument


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
"""By the name of the route."""
