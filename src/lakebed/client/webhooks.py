"""Webhooks: for those who receive events, and for those who look after who does.

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
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.core.webhooks import TOLERANCE_SECONDS, verify

from .connection import Connection
from .events import Event

_PATH: Final = "/lakebed/v1/webhooks"


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


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Somebody who has events posted, and how far that has come."""

    name: str
    url: str
    kinds: list[str]
    origin: str
    """`settings` or `api`."""
    after: int | None = None
    """The last event that it is done with, or that waits for it."""
    last_seq: int = 0
    """The newest event."""
    waiting: int = 0
    dead: int = 0
    failure: str | None = None
    """Why the last attempt failed, of what is not delivered yet."""
    secret: str | None = None
    """What messages are signed with: told once, by the answer to who added the webhook without one."""


class Undelivered(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An event that waits to be tried again, or that was given up."""

    event: Event
    state: str
    attempts: int
    due_ms: int
    changed_ms: int
    failure: str = ""


class _Page(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    deliveries: list[Undelivered]
    next_page_token: str | None = None


class _List(msgspec.Struct, frozen=True):
    webhooks: list[Webhook]


class _Redriven(msgspec.Struct, frozen=True):
    redriven: int


class Webhooks:
    """Who has events posted, over the wire."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> list[Webhook]:
        """All of them."""
        return self._connection.read(_List, "GET", _PATH).webhooks

    def get(self, name: str) -> Webhook:
        """One of them. Raises NotFound."""
        return self._connection.read(Webhook, "GET", _one(name))

    def put(self, name: str, url: str, kinds: Sequence[str] = ("*",), secret: str | Secret | None = None) -> Webhook:
        """Add one, or change it. `kinds` are names, or beginnings of names followed by `*`."""
        document: dict[str, object] = {"url": url, "kinds": list(kinds)}
        if secret is not None:
            document["secret"] = secret.reveal() if isinstance(secret, Secret) else secret
        return self._connection.read(Webhook, "PUT", _one(name), document=document)

    def delete(self, name: str) -> None:
        """Remove one, and what waits for it."""
        self._connection.call("DELETE", _one(name))

    def undelivered(self, name: str, state: str = "dead") -> Iterator[Undelivered]:
        """What was given up, or is `waiting`, oldest first."""
        for page in self._connection.pages(_Page, _one(name, "/deliveries"), {"state": state}):
            yield from page.deliveries

    def redrive(self, name: str, seq: int | None = None) -> int:
        """Have what was given up tried again, or one event of it; how many."""
        document = {} if seq is None else {"seq": seq}
        # Again is the same: what waits is not dead.
        answer = self._connection.read(
            _Redriven, "POST", _one(name, "/redrive"), document=document, repeatable=seq is None
        )
        return answer.redriven


def _one(name: str, rest: str = "") -> str:
    return f"{_PATH}/{quote(name, safe='')}{rest}"
