"""What a select looks like from an edge: opened once, then read piece by piece until it ends or is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject

from .model import QueryStats, SelectRequest


class RunningQuery(Protocol):
    """A query under way. Whoever opened it closes it, however it ends."""

    @property
    def found(self) -> FoundObject | None:
        """The version that is read: it was pinned when the query was opened. None where many objects are."""
        ...

    @property
    def counts(self) -> QueryStats:
        """How much was done, true at any moment."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it is known that nothing follows what was read. What is over may not know it before it is asked."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The records as bytes, cut anywhere; nothing is computed far ahead of who reads.

        Raises SelectError when the object or the query turns out wrong on the way, Unavailable when the query takes
        too long or too much memory, Corrupted when the stored bytes are not what was written.
        """
        ...

    async def aclose(self) -> None:
        """Stop the query and free what it holds. Idempotent; returns when both have happened."""
        ...


class QueryRunner(Protocol):
    """Answers selects."""

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> RunningQuery:
        """Start a query on the current version of an object, or on the one named.

        Raises what a GET of the object raises; SelectError for whatever is wrong that can be known before the first
        record; Throttled when as many queries as may be are running; NotSupported where the engine is not installed.
        """
        ...

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> RunningQuery:
        """Start a query on all objects whose keys begin with that, as one, in the order of their keys.

        Raises as `open`, of any of them; and what a listing raises. NoSuchKey where there is none.
        """
        ...
