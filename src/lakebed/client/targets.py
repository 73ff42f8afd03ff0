"""The client of targets: receivers of events, their delivery state, and dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from .connection import ServerConnection
from .events import Event

_PATH: Final = "/lakebed/v1/targets"


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A target and its delivery state."""

    name: str
    type: str
    arn: str
    """ARN in notification configurations of buckets."""
    settings: dict[str, Any]
    """Settings, with secrets redacted. Any: JSON."""
    kinds: list[str]
    """Event kinds of its subscription, besides bucket rules."""
    origin: str
    """`settings` or `api`."""
    subject: str = ""
    audit: bool = False
    requests: bool = False
    """Whether it receives the request log."""
    form: str = ""
    paused: bool = False
    after: int | None = None
    """Cursor: the last event that was delivered or queued."""
    last_seq: int = 0
    """Newest event of the outbox."""
    requests_behind: int = 0
    """Undelivered requests of the request log."""
    waiting: int = 0
    dead: int = 0
    failure: str | None = None
    """Failure of the last attempt, until a delivery succeeds."""
    made: dict[str, Any] = {}
    """Generated settings, such as a secret. Only in the response that creates the target."""


class Undelivered(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """An event that waits for a retry, or a dead letter."""

    event: Event
    state: str
    attempts: int
    due_ms: int
    changed_ms: int
    failure: str = ""
    rule: str = ""
    """Id of the bucket rule, if one selected the event."""


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
    """The target API."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> list[TargetStatus]:
        """List the targets."""
        return self._connection.read(_List, "GET", _PATH).targets

    def arns(self) -> Sequence[str]:
        """ARNs of the targets, as in notification configurations of buckets."""
        return self._connection.read(_Arns, "GET", f"{_PATH}/arns").arns

    def get(self, type_: str, name: str) -> TargetStatus:
        """Get a target. Raises NotFound."""
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
        """Create or replace a target. Omitted secrets are kept.

        `kinds` subscribes it to event kinds, or prefixes followed by `*`, besides bucket rules.
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
        """Delete a target and its queued events."""
        self._connection.call("DELETE", _one(type_, name))

    def test(self, type_: str, name: str) -> str | None:
        """Test the connection. Returns the failure; None if the target is ready."""
        tested = self._connection.read(_Tested, "POST", _one(type_, name, "/test"), repeatable=True)
        return None if tested.is_ready else tested.failure or "not ready"

    def pause(self, type_: str, name: str) -> None:
        """Pause delivery."""
        self._connection.call("POST", _one(type_, name, "/pause"))

    def resume(self, type_: str, name: str) -> None:
        """Resume delivery at the cursor."""
        self._connection.call("POST", _one(type_, name, "/resume"))

    def undelivered(self, type_: str, name: str, state: str = "dead") -> Iterator[Undelivered]:
        """Dead letters, or events in state `waiting`, oldest first."""
        for page in self._connection.pages(_Page, _one(type_, name, "/deliveries"), {"state": state}):
            yield from page.deliveries

    def redrive(self, type_: str, name: str, seq: int | None = None) -> int:
        """Redrive all dead letters or one; returns their number."""
        document = {} if seq is None else {"seq": seq}
        # Idempotent: redriven events are not dead letters any more.
        response = self._connection.read(
            _Redriven, "POST", _one(type_, name, "/redrive"), document=document, repeatable=seq is None
        )
        return response.redriven


def _one(type_: str, name: str, rest: str = "") -> str:
    return f"{_PATH}/{quote(type_, safe='')}/{quote(name, safe='')}{rest}"
