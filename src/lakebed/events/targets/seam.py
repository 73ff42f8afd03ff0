"""What every target is given and has to promise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec


@dataclass(frozen=True, slots=True)
class EventMessage:
    """An event, rendered for whoever receives it."""

    id: str
    """The event's id, unique among all deployments, and the same in every attempt and for every target."""
    name: str
    """`s3:ObjectCreated:Put`, or the kind of what is no S3 event."""
    key: str
    """`<bucket>/<key>` as it is, or what else the event is about."""
    is_removal: bool
    """Whether what it is about is gone: a target that mirrors what there is forgets it."""
    occurred_ms: int
    body: bytes
    content_type: str = "application/json"
    proof: str = ""
    """What tells this server, should the message come to itself over HTTP, that it sent it; empty for most."""
    target: str = ""
    """The target that it is sent to, as `<name>:<type>`."""

    @property
    def deduplication_key(self) -> str:
        """Identifies repeated attempts: of one event, each target delivers its own message."""
        return f"{self.id}/{self.target}"


class EventTarget(Protocol):
    """Somewhere that events go. It connects when it is first used, and again after the connection was lost."""

    @property
    def max_in_flight(self) -> int:
        """How many messages may be under way; those of one key never are."""
        ...

    async def send(self, message: EventMessage) -> None:
        """Return when the other side has it for good.

        Raises Unavailable when another attempt may succeed, Undeliverable when none will. It may have it all the same.
        """
        ...

    async def check(self) -> None:
        """Return if the other side would take a message now. Raises Unavailable with what is in the way."""
        ...

    async def close(self) -> None:
        """Let go of the connection. Idempotent; nothing is sent afterwards."""
        ...


class TargetSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a kind of target has to be told. Subclasses name their fields as the reference page does."""

    secrets: ClassVar[frozenset[str]] = frozenset()
    """The fields that are never shown again."""

    def validate(self) -> None:
        """Raises InvalidInput with the name of the field that is wrong as its argument."""

    def completed(self) -> Self:
        """These, with what was left out and can be made up: a secret to sign with, say."""
        return self

    def __repr__(self) -> str:
        shown = (
            f"{name}={'***' if name in self.secrets else repr(getattr(self, name))}" for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"


S = TypeVar("S", bound=TargetSettings)


@dataclass(frozen=True, slots=True)
class TargetType(Generic[S]):
    """A kind of target: what it is called, what it needs, how one is made. Making one connects to nobody."""

    name: str
    settings: type[S]
    make: Callable[[S], EventTarget]
    prepare: Callable[[S], Awaitable[None]] | None = None
    """What is done once, when a target is added: a table that is created, say. Raises Unavailable, InvalidInput."""
    takes_requests: bool = True
    """Whether an entry for every request is something that such a target can be sent."""
