"""Sends one event to one subscriber: a signed POST, answered with 2xx or not delivered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import Unavailable
from lakebed.core.webhooks import signed_headers
from lakebed.meta.outbox import Entry
from lakebed.storage.credentials.http import Http, HttpRequest

from ..documents import event_document
from .model import Subscriber

_MAX_ANSWER_BYTES = 64 * 1024


class Sender(Protocol):
    """How an event gets to a subscriber."""

    async def send(self, subscriber: Subscriber, entry: Entry) -> None:
        """Return if the subscriber has it. Raises LakebedError with why it has not; it may have it all the same."""
        ...


def message_id(entry: Entry) -> str:
    """The same for every attempt: whoever has handled it need not again."""
    return f"evt_{entry.seq}"


class HttpSender:
    """Posts over HTTP. Redirects are not followed: the event was meant for who was named."""

    def __init__(self, connect: Callable[[str | None], Http], clock: Clock, *, timeout_seconds: float) -> None:
        """`connect` gives the way to those whom the authorities of a bundle vouch for, or the system's."""
        self._connect = connect
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._ways: dict[str | None, Http] = {}

    async def send(self, subscriber: Subscriber, entry: Entry) -> None:
        """Post it. Raises Unavailable when there is no answer, or another than 2xx."""
        body = msgspec.json.encode(event_document(entry))
        headers = {"Content-Type": "application/json", "User-Agent": "lakebed"}
        headers |= signed_headers(subscriber.secret, message_id(entry), self._clock.now_ms(), body)
        http = self._ways.get(subscriber.ca_bundle)
        if http is None:
            http = self._ways[subscriber.ca_bundle] = self._connect(subscriber.ca_bundle)
        answer = await http(
            HttpRequest(
                "POST",
                subscriber.url,
                headers,
                body,
                self._timeout_seconds,
                through_proxy=True,
                max_answer_bytes=_MAX_ANSWER_BYTES,
            )
        )
        if not 200 <= answer.status < 300:
            raise Unavailable(f"answered {answer.status}")
