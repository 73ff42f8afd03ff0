"""Who has events posted, and what became of an event that could not be delivered at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput, InvalidName
from lakebed.core.secrets import Secret
from lakebed.meta.outbox import Entry, Event
from lakebed.meta.seam import Row

from ..selection import Selection

MAX_URL_CHARS: Final = 2048

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


class Origin(StrEnum):
    """Where a subscriber was named."""

    SETTINGS = "settings"
    API = "api"


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Somebody who has events posted. One that differs in anything is served anew from where it stands."""

    name: str
    url: str
    secret: Secret
    kinds: tuple[str, ...]
    selection: Selection
    origin: Origin = Origin.API
    ca_bundle: str | None = None

    @property
    def cursor(self) -> str:
        """The name of its place in the outbox."""
        return cursor_of(self.name)


class DeliveryState(StrEnum):
    """Where an event is that was not delivered at once."""

    WAITING = "waiting"
    """To be tried again, or behind one of its lane that is."""

    DEAD = "dead"
    """Given up after its last attempt."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that was not delivered at once."""

    entry: Entry
    lane: str
    state: DeliveryState
    attempts: int
    due_ms: int
    failure: str
    """Why the last attempt failed."""
    changed_ms: int


_CURSORS: Final = "webhook "


def cursor_of(name: str) -> str:
    """The name of a subscriber's place in the outbox."""
    return _CURSORS + name


def subscriber_of(cursor: str) -> str | None:
    """Whose place it is; None for a cursor of something else."""
    return cursor.removeprefix(_CURSORS) if cursor.startswith(_CURSORS) else None


def check_name(name: str) -> str:
    """The name, if a subscriber can have it. Raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(
            "the name of a webhook has 1 to 64 letters, digits, - and _", argument="name", value=name[:80]
        )
    return name


def check_url(url: str, *, allow_http: bool) -> str:
    """The URL, if events can be posted to it. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput("url is not a URL", argument="url") from error
    if parts.scheme not in ("http", "https") or not host or port == 0 or len(url) > MAX_URL_CHARS:
        raise InvalidInput(f"url is an http or https URL of at most {MAX_URL_CHARS} characters", argument="url")
    if parts.username is not None or parts.fragment or re.search(r"[^\x21-\x7e]", url):
        raise InvalidInput("url has no credentials, no fragment, and visible ASCII characters alone", argument="url")
    if parts.scheme == "http" and host not in _LOOPBACK and not allow_http:
        raise InvalidInput("events are posted over https, unless webhooks.allow_http is set", argument="url")
    return url


def delivery_from(row: Row) -> Delivery:
    """A delivery from its row."""
    seq, lane, kind, subject, payload, occurred_ms, operation, state, attempts, due_ms, failure, changed_ms = row
    event = Event(kind, subject, payload, occurred_ms, operation)
    return Delivery(Entry(seq, event), lane, DeliveryState(state), attempts, due_ms, failure, changed_ms)
