"""The table of calls: API key, versions, and handler. Clients are offered only the calls in the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message

from lakebed.objects.model import Caller

__all__ = ["API_VERSIONS", "AUTHENTICATE", "Call", "CallResponse", "Chunks", "RawCall", "call_table"]

API_VERSIONS: Final = 1000
AUTHENTICATE: Final = 1038

Chunks: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""An encoded message in pieces, so that records in it are not copied."""

CallResponse: TypeAlias = Message | Chunks

RequestT = TypeVar("RequestT", bound=Message)


class Backpressure(Protocol):
    """Lets a handler wait until the client has read earlier responses."""

    async def wait_until_read(self) -> None:
        """Wait until the client reads its responses. For frequent small responses."""
        ...

    async def acquire_large(self) -> None:
        """Wait until no other large response is being sent. Released when the response is written to the socket."""
        ...


@dataclass(frozen=True, slots=True)
class Call(Generic[RequestT]):
    """A call with a message as request and response."""

    key: int
    name: str
    request: type[RequestT]
    handle: Callable[[Caller, RequestT], Awaitable[Message]]
    max_version: int = 0


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call whose handler decodes and encodes the messages itself, so that records are not copied."""

    key: int
    name: str
    handle: Callable[[Caller, memoryview, int, Backpressure], Awaitable[CallResponse]]
    """Called with the caller, the body, the API version, and the backpressure on responses."""

    max_version: int = 0


AnyCall: TypeAlias = Call[Any] | RawCall
"""Any: each handler takes the message of its call."""


def call_table(calls: Iterable[AnyCall]) -> Mapping[int, AnyCall]:
    """The calls by key. Raises ValueError for a duplicate key."""
    table: dict[int, AnyCall] = {}
    for call in calls:
        if call.key in table:
            raise ValueError(f"duplicate API key. key={call.key} names={table[call.key].name}, {call.name}")
        table[call.key] = call
    return table
