"""Forms: how an event is written for whoever is sent it. Pure.

s3            `{"EventName", "Key", "Records": [record]}`, as MinIO's targets send it, for readers of S3's events
envelope      neutral: a namespace, an operation, what most want to know, and the record as the payload
cloudevents   CloudEvents 1.0, structured JSON
lakebed       as `GET /lakebed/v1/events` has it
audit         an entry of an audit log, as MinIO's audit targets send it

Requests are written in the same forms as events, and have an entry of an audit log in the place of a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Protocol

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

_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Form(StrEnum):
    """A way to write events."""

    S3 = "s3"
    ENVELOPE = "envelope"
    CLOUDEVENTS = "cloudevents"
    LAKEBED = "lakebed"
    AUDIT = "audit"


def parse_form(text: str) -> Form:
    """A form by its name. Raises InvalidInput."""
    try:
        return Form(text)
    except ValueError:
        raise InvalidInput(f"form is one of {', '.join(Form)}", argument="form", value=text[:80]) from None


def render(entry: OutboxEntry, form: Form, rule_id: str = "", *, region: str, ids: EventIds) -> EventMessage:
    """The event in a form, for any target. `rule_id` is that of the bucket rule that selected it, if one did."""
    read: _Read = _OfRequest(entry, region, ids) if is_request(entry) else _OfEvent(entry, rule_id, region, ids)
    body = msgspec.json.encode(_WRITERS[form](read))
    return EventMessage(
        id=ids.of(entry),
        name=read.name,
        key=entry.event.subject,
        is_removal=read.is_removal,
        occurred_ms=entry.event.occurred_ms,
        body=body,
        content_type=CLOUDEVENTS if form is Form.CLOUDEVENTS else JSON,
    )


class _Read(Protocol):
    """What is written, for whom it is written. Each part is made when a form asks for it."""

    entry: OutboxEntry
    id: str

    @property
    def name(self) -> str: ...

    @property
    def document(self) -> dict[str, Any]: ...

    @property
    def is_removal(self) -> bool: ...

    @property
    def record(self) -> dict[str, Any]: ...

    @property
    def namespace(self) -> str: ...

    @property
    def operation(self) -> str: ...

    @property
    def metadata(self) -> dict[str, Any]:
        """What most want to know; what is not known is left out."""
        ...

    @property
    def origin(self) -> tuple[str, str]:
        """The source of a cloud event, and the subject in it."""
        ...

    @property
    def type(self) -> str: ...

    @property
    def audit(self) -> dict[str, Any]: ...


class _OfEvent:
    """An event."""

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
        return event is not None and event.name.ends_what_it_names and not event.payload.remains

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
        return dashed(self.name.removeprefix("lakebed:")) if self._event is None else operation_of(self._event.name)

    @property
    def metadata(self) -> dict[str, Any]:
        event, entry = self._event, self.entry
        sequencer = sequencer_of(entry.seq)
        if event is None:
            principal = payload_text(entry.event.payload, "principal")
            return _known({"subject": entry.event.subject, "sequencer": sequencer, "principalId": principal})
        payload = event.payload
        return _known(
            {
                "bucket": payload.bucket,
                "key": payload.key,
                "size": payload.size if payload.key and not event.name.is_of_removal else None,
                "eTag": payload.etag,
                "versionId": payload.version,
                "sequencer": sequencer,
                "principalId": payload.principal,
                "eventVersion": event.name.version,
            }
        )

    @property
    def origin(self) -> tuple[str, str]:
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


class _OfRequest:
    """A request."""

    namespace = "audit.request"
    is_removal = False

    def __init__(self, entry: OutboxEntry, region: str, ids: EventIds) -> None:
        self.entry = entry
        self.id = ids.of(entry)
        self._told = decode_request(entry)
        self._region = region

    @property
    def name(self) -> str:
        return self.entry.event.kind

    @property
    def record(self) -> dict[str, Any]:
        return self.audit

    @property
    def operation(self) -> str:
        return dashed(self.name)

    @property
    def metadata(self) -> dict[str, Any]:
        payload = self._told
        return _known(
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
        return f"urn:lakebed:requests:{self._region}", self._told.request_id

    @property
    def type(self) -> str:
        return f"{SOURCE}.{self.namespace}.{self.operation}"

    @property
    def audit(self) -> dict[str, Any]:
        return audit_of_request(self.entry, self._told)

    @property
    def document(self) -> dict[str, Any]:
        return event_document(self.entry, self.id)


def _s3(read: _Read) -> dict[str, Any]:
    return {"EventName": read.name, "Key": read.entry.event.subject, "Records": [read.record]}


def _envelope(read: _Read) -> dict[str, Any]:
    return {
        "id": read.id,
        "namespace": read.namespace,
        "operation": read.operation,
        "timestamp": rfc3339(read.entry.event.occurred_ms),
        "source": SOURCE,
        "metadata": read.metadata,
        "payload": read.record,
    }


def _cloudevent(read: _Read) -> dict[str, Any]:
    source, subject = read.origin
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": read.id,
        "source": source,
        "type": read.type,
    }
    if subject:
        # One that is there may not be empty.
        document["subject"] = subject
    return document | {
        "time": rfc3339(read.entry.event.occurred_ms),
        "sequence": sequencer_of(read.entry.seq),
        "datacontenttype": JSON,
        "data": read.record,
    }


def _lakebed(read: _Read) -> dict[str, Any]:
    return read.document


def _audit(read: _Read) -> dict[str, Any]:
    return read.audit


def _known(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value not in (None, "")}


_WRITERS: Final[Mapping[Form, Callable[[_Read], dict[str, Any]]]] = {
    Form.S3: _s3,
    Form.ENVELOPE: _envelope,
    Form.CLOUDEVENTS: _cloudevent,
    Form.LAKEBED: _lakebed,
    Form.AUDIT: _audit,
}

_SPECIAL: Final[Mapping[EventName, str]] = {
    EventName.OBJECT_CREATED_COMPLETE_MULTIPART_UPLOAD: "created.multipart-complete",
    EventName.OBJECT_REMOVED_NO_OP: "removed.no-op",
    EventName.BUCKET_CREATED: "created",
    EventName.BUCKET_REMOVED: "removed",
}


def operation_of(name: EventName) -> str:
    """What a neutral envelope calls it: `created.put`, `removed.delete-marker-created`, `tagging.delete`."""
    if name in _SPECIAL:
        return _SPECIAL[name]
    family, _, deed = name.value.removeprefix(PREFIX).partition(":")
    words = [dashed(family.removeprefix("Object"))]
    return ".".join([*words, dashed(deed)] if deed else words)


def dashed(name: str) -> str:
    """`DeleteMarkerCreated` as `delete-marker-created`; what has no words of that kind in lower case."""
    return _WORDS.sub("-", name.replace("_", "-").replace(":", ".")).lower()
