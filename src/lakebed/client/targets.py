"""Targets: where the server sends events, and what could not be delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from .connection import ServerConnection
from .events import Event

_PATH: Final = "/lakebed/v1/targets"


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Somewhere that events go, and how far that has come."""

    name: str
    type: str
    arn: str
    """How configurations of buckets name it."""
    settings: dict[str, Any]
    """What it was told; secrets are stars. Any: JSON."""
    kinds: list[str]
    """What it is sent besides what bucket rules have sent to it."""
    origin: str
    """`settings` or `api`."""
    subject: str = ""
    audit: bool = False
    requests: bool = False
    """Whether it is sent an entry of an audit log for every request."""
    form: str = ""
    paused: bool = False
    after: int | None = None
    """The last event that it is done with, or that waits for it."""
    last_seq: int = 0
    """The newest event."""
    requests_behind: int = 0
    """Requests that it has not been through."""
    waiting: int = 0
    dead: int = 0
    failure: str | None = None
    """Why the last attempt failed, of what is not delivered yet."""
    made: dict[str, Any] = {}
    """What the server made up for it, such as a secret: told once, by the answer to who added it."""


class Undelivered(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An event that waits to be tried again, or that was given up."""

    event: Event
    state: str
    attempts: int
    due_ms: int
    changed_ms: int
    failure: str = ""
    rule: str = ""
    """The bucket rule that asked for it, if one did."""


class _Page(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    deliveries: list[Undelivered]
    next_page_token: str | None = None


class _List(msgspec.Struct, frozen=True):
    targets: list[TargetStatus]


class _Arns(msgspec.Struct, frozen=True):
    arns: list[str]


class _Tested(msgspec.Struct, frozen=True, rename="kebab"):
    is_ready: bool
    failure: str | None = None


class _Redriven(msgspec.Struct, frozen=True):
    redriven: int


class Targets:
    """Where events go, over the wire."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> list[TargetStatus]:
        """All of them."""
        return self._connection.read(_List, "GET", _PATH).targets

    def arns(self) -> Sequence[str]:
        """How configurations of buckets name them."""
        return self._connection.read(_Arns, "GET", f"{_PATH}/arns").arns

    def get(self, type_: str, name: str) -> TargetStatus:
        """One of them. Raises NotFound."""
        return self._connection.read(TargetStatus, "GET", _one(type_, name))

    def put(
        self,
        type_: str,
        name: str,
        settings: Mapping[str, object],
        *,
        kinds: Sequence[str] = (),
        subject: str = "",
        audit: bool = False,
        requests: bool = False,
        form: str = "",
    ) -> TargetStatus:
        """Add one, or change it; secrets that are not given are kept.

        `kinds` are names, or beginnings of names followed by `*`, of what it is sent besides what bucket rules ask for.
        """
        document = {
            "settings": dict(settings),
            "kinds": list(kinds),
            "subject": subject,
            "audit": audit,
            "requests": requests,
            "form": form,
        }
        return self._connection.read(TargetStatus, "PUT", _one(type_, name), document=document)

    def delete(self, type_: str, name: str) -> None:
        """Remove one, and what waits for it."""
        self._connection.call("DELETE", _one(type_, name))

    def test(self, type_: str, name: str) -> str | None:
        """Why it would not take an event now; None if it would."""
        tested = self._connection.read(_Tested, "POST", _one(type_, name, "/test"), repeatable=True)
        return None if tested.is_ready else tested.failure or "it is not ready"

    def pause(self, type_: str, name: str) -> None:
        """Have it sent nothing until it is resumed."""
        self._connection.call("POST", _one(type_, name, "/pause"))

    def resume(self, type_: str, name: str) -> None:
        """Have it sent events again, from where it stood."""
        self._connection.call("POST", _one(type_, name, "/resume"))

    def undelivered(self, type_: str, name: str, state: str = "dead") -> Iterator[Undelivered]:
        """What was given up, or is `waiting`, oldest first."""
        for page in self._connection.pages(_Page, _one(type_, name, "/deliveries"), {"state": state}):
            yield from page.deliveries

    def redrive(self, type_: str, name: str, seq: int | None = None) -> int:
        """Have what was given up tried again, or one event of it; how many."""
        document = {} if seq is None else {"seq": seq}
        # Again is the same: what waits is not dead.
        answer = self._connection.read(
            _Redriven, "POST", _one(type_, name, "/redrive"), document=document, repeatable=seq is None
        )
        return answer.redriven


def _one(type_: str, name: str, rest: str = "") -> str:
    return f"{_PATH}/{quote(type_, safe='')}/{quote(name, safe='')}{rest}"
