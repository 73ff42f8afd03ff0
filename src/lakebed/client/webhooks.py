"""Verifies webhook deliveries, for receivers.

    seen = SeenMessages()

    def receive(headers, body):                 # of a POST
        message = verify_webhook(SECRET, headers, body)      # raises Unauthenticated: respond with 401
        if seen.is_new(message.id):
            handle(message.event)
        return 204

Deliveries may repeat, after a lost response or a restart of the server, with the same id. The timestamp rejects replays
of old messages.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import TOLERANCE_SECONDS, verify

from .events import Event


class WebhookMessage(msgspec.Struct, frozen=True):
    """A verified message."""

    id: str
    """The same for every attempt."""
    timestamp: int
    event: Event


def verify_webhook(
    secret: str | Secret | Sequence[str | Secret],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_seconds: float | None = None,
    tolerance_seconds: int = TOLERANCE_SECONDS,
) -> WebhookMessage:
    """Verify signature and timestamp with one of the secrets, and decode the event.

    Raises Unauthenticated, and InvalidInput for a malformed secret or event. `now_seconds` defaults to the
    current time.
    """
    stated = [secret] if isinstance(secret, str | Secret) else secret
    secrets = [one if isinstance(one, Secret) else Secret(one) for one in stated]
    now_ms = round((time.time() if now_seconds is None else now_seconds) * 1000)
    verified = verify(secrets, headers, body, now_ms=now_ms, tolerance_seconds=tolerance_seconds)
    try:
        event = msgspec.json.decode(body, type=Event)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"message is not an event: {error}") from error
    return WebhookMessage(verified.id, verified.timestamp, event)


class SeenMessages:
    """Ids of handled messages, newest last, for deduplication in one process."""

    def __init__(self, most: int = 10_000) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._most = most

    def is_new(self, message_id: str) -> bool:
        """Record a message; returns whether it is new."""
        if message_id in self._ids:
            self._ids.move_to_end(message_id)
            return False
        self._ids[message_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
        return True
