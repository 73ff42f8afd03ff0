"""Forms: the message formats of targets. Pure.

s3            `{"EventName", "Key", "Records": [record]}`, MinIO's format, for consumers of S3 events
envelope      neutral: namespace, operation, common metadata, and the record as payload
cloudevents   CloudEvents 1.0, structured JSON
lakebed       the document of `GET /lakebed/v1/events`
audit         an audit log entry in MinIO's format

Request log entries have the same forms, with the audit document in place of the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.meta.outbox import OutboxEntry

from .documents import event_document, payload_text
from .ids import EventIds
from .names import PREFIX, EventName
from .records import other_record_of, record_of, rfc3339, s3_event_of, sequencer_of
from .requests import audit_of_event, audit_of_request, decode_request, is_request
from .targets.seam import EventMessage

JSON: Final = "application/json"
CLOUDEVENTS: Final = "application/cloudevents+json"
SOURCE: Final = "lakebed"

_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Form(StrEnum):
    """A message format."""

    S3 = "s3"
    ENVELOPE = "envelope"
    CLOUDEVENTS = "cloudevents"
    LAKEBED = "lakebed"
    AUDIT = "audit"


def parse_form(text: str) -> Form:
    """Parse the name of a form. Raises InvalidInput."""
    try:
        return Form(text)
    except ValueError:
        raise InvalidInput(f"form must be one of {', '.join(Form)}", argument="form", value=text[:80]) from None


def render(entry: OutboxEntry, form: Form, rule_id: str = "", *, region: str, ids: EventIds) -> EventMessage:
    """Render an entry. `rule_id` is the bucket rule that matched it, or empty."""
    source = _RequestSource(entry, region, ids) if is_request(entry) else _EventSource(entry, rule_id, region, ids)
    body = msgspec.json.encode(_RENDERERS[form](source))
    return EventMessage(
        id=ids.of(entry),
        name=source.name,
        key=entry.event.subject,
        is_removal=source.is_removal,
        occurred_ms=entry.event.occurred_ms,
        body=body,
        content_type=CLOUDEVENTS if form is Form.CLOUDEVENTS else JSON,
    )


class _EventSource:
    def __init__(self, entry: OutboxEntry, rule_id: str, region: str, ids: EventIds) -> None:
        self.entry = entry
        self.id = ids.of(entry)
        self._event = s3_event_of(entry)
        self._rule_id = rule_id
        self._region = region

    @property
    def name(self) -> str:
        return self.entry.event.kind if self._event is None else self._event.name.value

    @property
    def is_removal(self) -> bool:
        event = self._event
        return event is not None and event.name.removes_resource and not event.payload.remains

    @property
    def record(self) -> dict[str, Any]:
        if self._event is None:
            return other_record_of(self.entry, self.document, region=self._region)
        return record_of(self._event, rule_id=self._rule_id, region=self._region)

    @property
    def namespace(self) -> str:
        if self._event is None:
            return SOURCE
        return "storage.object" if self._event.payload.key else "storage.bucket"

    @property
    def operation(self) -> str:
        return kebab_case(self.name.removeprefix("lakebed:")) if self._event is None else operation_of(self._event.name)

    @property
    def metadata(self) -> dict[str, Any]:
        """Common fields, without unknown ones."""
        event, entry = self._event, self.entry
        sequencer = sequencer_of(entry.seq)
        if event is None:
            principal = payload_text(entry.event.payload, "principal")
            return _without_empty({"subject": entry.event.subject, "sequencer": sequencer, "principalId": principal})
        payload = event.payload
        return _without_empty(
            {
                "bucket": payload.bucket,
                "key": payload.key,
                "size": payload.size if payload.key and not event.name.omits_object_fields else None,
                "eTag": payload.etag,
                "versionId": payload.version,
                "sequencer": sequencer,
                "principalId": payload.principal,
                "eventVersion": event.name.version,
            }
        )

    @property
    def origin(self) -> tuple[str, str]:
        """The `source` and `subject` of a CloudEvent."""
        if self._event is None:
            return f"urn:lakebed:events:{self._region}", self.entry.event.subject
        payload = self._event.payload
        return f"urn:lakebed:s3:{self._region}:{payload.bucket}", payload.key

    @property
    def type(self) -> str:
        return ".".join([SOURCE, self.operation] if self._event is None else [SOURCE, self.namespace, self.operation])

    @property
    def audit(self) -> dict[str, Any]:
        return audit_of_event(self.entry, self.document)

    @property
    def document(self) -> dict[str, Any]:
        return event_document(self.entry, self.id)


class _RequestSource:
    namespace = "audit.request"
    is_removal = False

    def __init__(self, entry: OutboxEntry, region: str, ids: EventIds) -> None:
        self.entry = entry
        self.id = ids.of(entry)
        self._payload = decode_request(entry)
        self._region = region

    @property
    def name(self) -> str:
        return self.entry.event.kind

    @property
    def record(self) -> dict[str, Any]:
        return self.audit

    @property
    def operation(self) -> str:
        return kebab_case(self.name)

    @property
    def metadata(self) -> dict[str, Any]:
        payload = self._payload
        return _without_empty(
            {
                "bucket": payload.bucket,
                "key": payload.object,
                "status": payload.status,
                "requestId": payload.request_id,
                "sequencer": sequencer_of(self.entry.seq),
                "principalId": payload.principal,
            }
        )

    @property
    def origin(self) -> tuple[str, str]:
        return f"urn:lakebed:requests:{self._region}", self._payload.request_id

    @property
    def type(self) -> str:
        return f"{SOURCE}.{self.namespace}.{self.operation}"

    @property
    def audit(self) -> dict[str, Any]:
        return audit_of_request(self.entry, self._payload)

    @property
    def document(self) -> dict[str, Any]:
        return event_document(self.entry, self.id)


_Source: TypeAlias = _EventSource | _RequestSource
"""The parts of messages. Each is computed only if the form uses it."""


def _s3(source: _Source) -> dict[str, Any]:
    return {"EventName": source.name, "Key": source.entry.event.subject, "Records": [source.record]}


def _envelope(source: _Source) -> dict[str, Any]:
    return {
        "id": source.id,
        "namespace": source.namespace,
        "operation": source.operation,
        "timestamp": rfc3339(source.entry.event.occurred_ms),
        "source": SOURCE,
        "metadata": source.metadata,
        "payload": source.record,
    }


def _cloudevent(source: _Source) -> dict[str, Any]:
    uri, subject = source.origin
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": source.id,
        "source": uri,
        "type": source.type,
    }
    if subject:  # CloudEvents forbids an empty subject
        document["subject"] = subject
    return document | {
        "time": rfc3339(source.entry.event.occurred_ms),
        "sequence": sequencer_of(source.entry.seq),
        "datacontenttype": JSON,
        "data": source.record,
    }


def _without_empty(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value not in (None, "")}


_RENDERERS: Final[Mapping[Form, Callable[[_Source], dict[str, Any]]]] = {
    Form.S3: _s3,
    Form.ENVELOPE: _envelope,
    Form.CLOUDEVENTS: _cloudevent,
    Form.LAKEBED: lambda source: source.document,
    Form.AUDIT: lambda source: source.audit,
}

_IRREGULAR: Final[Mapping[EventName, str]] = {
    EventName.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD: "created.multipart-complete",
    EventName.OBJECT_REMOVED_NO_OP: "removed.no-op",
    EventName.BUCKET_CREATED: "created",
    EventName.BUCKET_REMOVED: "removed",
}


def operation_of(name: EventName) -> str:
    """The operation in an envelope: `created.put`, `removed.delete-marker-created`, `tagging.delete`."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    family, _, action = name.value.removeprefix(PREFIX).partition(":")
    operation = kebab_case(family.removeprefix("Object"))
    return f"{operation}.{kebab_case(action)}" if action else operation


def kebab_case(name: str) -> str:
    """`DeleteMarkerCreated` as `delete-marker-created`."""
    return _WORD_STARTS.sub("-", name.replace("_", "-").replace(":", ".")).lower()
