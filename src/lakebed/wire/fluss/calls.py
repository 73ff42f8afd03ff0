"""The table of calls: which key means what, in which versions, and who answers it.

What is not in the table a connection was given is not offered to its client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

from lakebed.objects.model import Caller

__all__ = ["API_VERSIONS", "AUTHENTICATE", "Answer", "Call", "Chunks", "RawCall", "call_table"]

API_VERSIONS: Final = 1000
AUTHENTICATE: Final = 1038

Chunks: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""An encoded message in pieces, so that what is large in it is not copied."""

Answer: TypeAlias = Message | Chunks

RequestT = TypeVar("RequestT", bound=Message)


class Backpressure(Protocol):
    """What a handler of large responses needs of its connection: to wait until the client has read the last one."""

    async def wait_until_read(self) -> None:
        """Wait until the client reads what was written to it. For responses that are many rather than large."""
        ...

    async def acquire_large(self) -> None:
        """Wait until no other large response is being sent. Released when the response was given to the socket."""
        ...


@dataclass(frozen=True, slots=True)
class Call(Generic[RequestT]):
    """One call, answered with a message for a message."""

    key: int
    name: str
    request: type[RequestT]
    answer: Callable[[Caller, RequestT], Awaitable[Message]]
    max_version: int = 0


@dataclass(frozen=True, slots=True)
class RawCall:
    """One call whose handler reads and writes the encoding itself, because records in it are not to be copied."""

    key: int
    name: str
    answer: Callable[[Caller, memoryview, int, Backpressure], Awaitable[Answer]]
    """Called with the body, the version of the call, and the backpressure on its responses."""

    max_version: int = 0


AnyCall: TypeAlias = Call[Any] | RawCall
"""Any: each handler takes the message of its own call."""


def call_table(calls: Iterable[AnyCall]) -> Mapping[int, AnyCall]:
    """The calls by key. Raises ValueError if two have the same."""
    table: dict[int, AnyCall] = {}
    for call in calls:
        if call.key in table:
            raise ValueError(f"two calls have one key. key={call.key} names={table[call.key].name}, {call.name}")
        table[call.key] = call
    return table
