"""The blocking client of one container or bucket. Each cloud implements it with the vendor's library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..seam import ObjectHead, ObjectVersion, WriteCondition


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a listing. `next_token` continues it; None at the end."""

    heads: Sequence[ObjectHead]
    next_token: str | None


class CloudClient(Protocol):
    """Requests to one container or bucket, from any thread, without retries of writes. Keys include the store's prefix.

    Every method raises the errors of `ObjectStorage`.
    """

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write an object in one atomic request."""
        ...

    def get(self, key: str) -> bytes:
        """The whole object. Raises NotFound."""
        ...

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive; nothing, or InvalidRange, past the object's end."""
        ...

    def open_stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        """The bytes of one version in pieces. The first request is sent before this returns."""
        ...

    def head(self, key: str) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        ...

    def list_page(self, prefix: str, start_from: str | None, token: str | None) -> ListedPage:
        """Up to 1,000 objects under `prefix`. `start_from` may be ignored; it is inclusive."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object. Raises NotFound if it is absent."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
