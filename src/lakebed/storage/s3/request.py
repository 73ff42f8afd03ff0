"""One S3 request as a value, and the blocking client that sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..credentials import Credentials
from ..seam import WriteCondition
from .error_mapping import StoreOperation

Reply = Mapping[str, Any]  # Any: the library's answers are untyped; the store reads their fields by name


@dataclass(frozen=True, slots=True)
class S3ClientRequest:
    """One operation on a key of the store's bucket. `arguments` are named as S3 names them and may hold the body."""

    operation: StoreOperation
    key: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict, repr=False)
    condition: WriteCondition | None = None
    """The condition that `arguments` carry, for telling what a refusal means."""


class S3Body(Protocol):
    """The body of a GET, under `Body` in its reply."""

    def read(self, size: int | None = None) -> bytes:
        """Up to `size` bytes, or all; nothing at the end. Raises Unavailable if the end comes too early."""
        ...

    def close(self) -> None:
        """Give the connection back, or drop it if bytes are left."""
        ...


class S3Client(Protocol):
    """Sends requests, each once, from any thread."""

    def call(self, request: S3ClientRequest, signer: Credentials) -> Reply:
        """The store's answer. Raises what a refusal means, Unavailable when there is no answer."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
