"""An S3 request, and the interface of the blocking client that sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..credentials import Credentials
from ..seam import WriteCondition
from .error_mapping import StoreOperation

Reply = Mapping[str, Any]  # Any: the library's responses are untyped; their fields are read by name


@dataclass(frozen=True, slots=True)
class S3ClientRequest:
    """An operation on a key of the store's bucket. `arguments` have S3's names and may contain the body."""

    operation: StoreOperation
    key: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict, repr=False)
    condition: WriteCondition | None = None
    """The condition in `arguments`, to interpret an error response."""


class S3Body(Protocol):
    """The body of a GET, under `Body` in its reply."""

    def read(self, size: int | None = None) -> bytes:
        """Up to `size` bytes, or all; empty at the end. Raises Unavailable if the body ends early."""
        ...

    def close(self) -> None:
        """Return the connection to the pool, or drop it if bytes are left."""
        ...


class S3Client(Protocol):
    """Sends requests from any thread, without retries."""

    def call(self, request: S3ClientRequest, signer: Credentials) -> Reply:
        """The response. Raises the error of an error response, Unavailable if there is no response."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
