"""Webhooks, for those who receive them.

A receiver needs one function and a small memory:

    seen = SeenMessages()

    def receive(headers, body):                 # of a POST
        message = verify_webhook(SECRET, headers, body)      # raises Unauthenticated: answer 401
        if seen.is_new(message.id):
            handle(message.event)
        return 204

A message may come again: after an answer that was lost, or from a server that was stopped in between. It has the same
id then. An old message that somebody else sends again is refused by its timestamp.
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
    """A message that the server has sent, and nobody else."""

    id: str
    """The same whenever it is sent again."""
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
    """The message, if it was signed with the secret, or one of several, and not long ago. Raises Unauthenticated.

    Raises InvalidInput for a secret that is none, and for a body that is no event. `now_seconds` is the machine's time
    unless another is given.
    """
    stated = [secret] if isinstance(secret, str | Secret) else secret
    secrets = [one if isinstance(one, Secret) else Secret(one) for one in stated]
    now_ms = round((time.time() if now_seconds is None else now_seconds) * 1000)
    verified = verify(secrets, headers, body, now_ms=now_ms, tolerance_seconds=tolerance_seconds)
    try:
        event = msgspec.json.decode(body, type=Event)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"the message is no event: {error}") from error
    return WebhookMessage(verified.id, verified.timestamp, event)


class SeenMessages:
    """The ids of messages that were handled, newest last. For one process; others keep theirs where all see it."""

    def __init__(self, most: int = 10_000) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._most = most

    def is_new(self, message_id: str) -> bool:
        """Whether it was not seen before; from now on it was."""
        if message_id in self._ids:
            self._ids.move_to_end(message_id)
            return False
        self._ids[message_id] = None
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)
        return True
