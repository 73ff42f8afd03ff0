"""Forms: how an event is written for whoever is sent it. Pure.

s3            `{"EventName", "Key", "Records": [record]}`, as MinIO's targets send it, for readers of S3's events
envelope      neutral: a namespace, an operation, what most want to know, and the record as the payload
cloudevents   CloudEvents 1.0, structured JSON
lakebed       as `GET /lakebed/v1/events` has it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.meta.outbox import Entry

from .documents import event_document, payload_text
from .names import PREFIX, EventName
from .records import S3Event, other_record_of, record_of, rfc3339, s3_event_of, sequencer_of
from .targets.seam import Message

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


def parse_form(text: str) -> Form:
    """A form by its name. Raises InvalidInput."""
    try:
        return Form(text)
    except ValueError:
        raise InvalidInput(f"form is one of {', '.join(Form)}", argument="form", value=text[:80]) from None


def message_id(entry: Entry) -> str:
    """The same in every attempt, in every form and to everybody."""
    return f"evt_{entry.seq}"


def render(entry: Entry, form: Form, rule_id: str = "", *, region: str) -> Message:
    """The event in a form. `rule_id` is that of the bucket's rule which asked for it, if one did."""
    event = s3_event_of(entry)
    read = _Read(entry, event, rule_id, region)
    body = msgspec.json.encode(_WRITERS[form](read))
    return Message(
        id=message_id(entry),
        name=read.name,
        key=entry.event.subject,
        is_removal=event is not None and event.name.ends_what_it_names and not event.told.remains,
        occurred_ms=entry.event.occurred_ms,
        body=body,
        content_type=CLOUDEVENTS if form is Form.CLOUDEVENTS else JSON,
    )


class _Read(NamedTuple):
    """An event, and for whom it is written."""

    entry: Entry
    event: S3Event | None
    rule_id: str
    region: str

    @property
    def name(self) -> str:
        return self.entry.event.kind if self.event is None else self.event.name.value

    @property
    def record(self) -> dict[str, Any]:
        if self.event is None:
            return other_record_of(self.entry, region=self.region)
        return record_of(self.event, rule_id=self.rule_id, region=self.region)

    @property
    def namespace(self) -> str:
        if self.event is None:
            return SOURCE
        return "storage.object" if self.event.told.key else "storage.bucket"

    @property
    def operation(self) -> str:
        return dashed(self.name.removeprefix("lakebed:")) if self.event is None else operation_of(self.event.name)


def _s3(read: _Read) -> dict[str, Any]:
    return {"EventName": read.name, "Key": read.entry.event.subject, "Records": [read.record]}


def _envelope(read: _Read) -> dict[str, Any]:
    return {
        "id": message_id(read.entry),
        "namespace": read.namespace,
        "operation": read.operation,
        "timestamp": rfc3339(read.entry.event.occurred_ms),
        "source": SOURCE,
        "metadata": _metadata(read),
        "payload": read.record,
    }


def _metadata(read: _Read) -> dict[str, Any]:
    """What is not known is left out."""
    event = read.event
    sequencer = sequencer_of(read.entry.seq)
    if event is None:
        principal = payload_text(read.entry.event.payload, "principal")
        found: dict[str, Any] = {"subject": read.entry.event.subject, "sequencer": sequencer, "principalId": principal}
    else:
        told = event.told
        found = {
            "bucket": told.bucket,
            "key": told.key,
            "size": told.size if told.key and not event.name.is_of_removal else None,
            "eTag": told.etag,
            "versionId": told.version,
            "sequencer": sequencer,
            "principalId": told.principal,
            "eventVersion": event.name.version,
        }
    return {name: value for name, value in found.items() if value not in (None, "")}


def _cloudevent(read: _Read) -> dict[str, Any]:
    event = read.event
    if event is None:
        source, subject = f"urn:lakebed:events:{read.region}", read.entry.event.subject
    else:
        source, subject = f"urn:lakebed:s3:{read.region}:{event.told.bucket}", event.told.key
    document: dict[str, Any] = {
        "specversion": "1.0",
        "id": message_id(read.entry),
        "source": source,
        "type": ".".join([SOURCE, read.operation] if event is None else [SOURCE, read.namespace, read.operation]),
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
    return event_document(read.entry)


_WRITERS: Final[Mapping[Form, Callable[[_Read], dict[str, Any]]]] = {
    Form.S3: _s3,
    Form.ENVELOPE: _envelope,
    Form.CLOUDEVENTS: _cloudevent,
    Form.LAKEBED: _lakebed,
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
