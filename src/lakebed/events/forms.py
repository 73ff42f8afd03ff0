"""Forms: how an event is written for whoever is sent it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.meta.outbox import Entry

from .documents import event_document
from .targets.seam import Message

_encode: Final = msgspec.json.Encoder().encode


class Form(StrEnum):
    """A way to write events."""

    LAKEBED = "lakebed"
    """As the event log is read."""


def parse_form(text: str) -> Form:
    """A form by its name. Raises InvalidInput."""
    try:
        return Form(text)
    except ValueError:
        raise InvalidInput(f"form is one of {', '.join(Form)}", argument="form", value=text[:80]) from None


def render(entry: Entry, form: Form, rule_id: str = "", *, region: str) -> Message:
    """The event in a form. `rule_id` is that of the bucket's rule which asked for it, if one did."""
    event = entry.event
    return Message(
        id=f"evt_{entry.seq}",
        name=f"s3:{event.kind}" if ":" in event.kind else event.kind,
        key=event.subject,
        is_removal=event.kind.startswith("ObjectRemoved:"),
        occurred_ms=event.occurred_ms,
        body=_encode(event_document(entry)),
    )
