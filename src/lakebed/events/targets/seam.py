"""The interface of event targets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec


@dataclass(frozen=True, slots=True)
class EventMessage:
    """A rendered event."""

    id: str
    """Unique across deployments; the same in every attempt and for every target."""
    name: str
    """`s3:ObjectCreated:Put`, or the kind of an event that is not from S3."""
    key: str
    """`<bucket>/<key>`, unencoded, or the subject of another event."""
    is_removal: bool
    """Whether the object or bucket no longer exists: mirrors delete their entry."""
    occurred_ms: int
    body: bytes
    content_type: str = "application/json"
    proof: str = ""
    """The loop guard's header, for targets over HTTP; empty for most messages."""
    target: str = ""
    """The receiving target, as `<name>:<type>`."""

    @property
    def deduplication_key(self) -> str:
        """Identifies repeated attempts of one target. Several targets may write to the same destination."""
        return f"{self.id}/{self.target}"


class EventTarget(Protocol):
    """A destination of events. Connects on first use, and reconnects after a connection loss."""

    @property
    def max_in_flight(self) -> int:
        """The maximum of concurrent messages. Messages of one key are never concurrent."""
        ...

    async def send(self, message: EventMessage) -> None:
        """Return once the destination has acknowledged the message.

        Raises Unavailable if a retry may succeed, Undeliverable if not. The message may have arrived nevertheless.
        """
        ...

    async def check(self) -> None:
        """Return if the destination would accept a message now. Raises Unavailable with the reason."""
        ...

    async def close(self) -> None:
        """Close the connection. Idempotent; `send` must not be called afterwards."""
        ...


class TargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of a target type. Subclasses define the fields in `docs/targets.md`."""

    secrets: ClassVar[frozenset[str]] = frozenset()
    """Write-only fields."""

    def validate(self) -> None:
        """Raises InvalidInput with the invalid field as its argument."""

    def completed(self) -> Self:
        """The settings with generated values for omitted fields, such as a signing secret."""
        return self

    def __repr__(self) -> str:
        shown = (
            f"{name}={'***' if name in self.secrets else repr(getattr(self, name))}" for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"


S = TypeVar("S", bound=TargetSettings)


@dataclass(frozen=True, slots=True)
class TargetType(Generic[S]):
    """A type of targets."""

    name: str
    settings: type[S]
    make: Callable[[S], EventTarget]
    """Creates a target, without connecting."""
    prepare: Callable[[S], Awaitable[None]] | None = None
    """Runs once when a target is added, for example to create a table. Raises Unavailable, InvalidInput."""
    takes_requests: bool = True
    """Whether targets of this type accept request log entries."""
