"""The interface of selects for wire protocols: a query is opened, read in pieces, and closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from lakebed.objects.model import Caller
from lakebed.objects.reading import FoundObject

from .model import QueryStats, SelectRequest


class RunningQuery(Protocol):
    """An open query. The caller closes it in any case."""

    @property
    def found(self) -> FoundObject | None:
        """The object version, fixed when the query was opened. None for a query over many objects."""
        ...

    @property
    def counts(self) -> QueryStats:
        """The current progress."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it is known that no more records follow. False may mean unknown."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The records as bytes in arbitrary pieces, computed on demand.

        Raises SelectError for errors found while reading, Unavailable if the query exceeds its time or memory limit,
        Corrupted if stored bytes do not verify.
        """
        ...

    async def aclose(self) -> None:
        """Stop the query and release its resources. Idempotent; returns when both are done."""
        ...


class QueryRunner(Protocol):
    """Runs selects."""

    async def open(
        self, caller: Caller, bucket: str, key: str, request: SelectRequest, *, version: str | None = None
    ) -> RunningQuery:
        """Start a query on the current version of an object, or on the given one.

        Raises as a GET of the object; SelectError for errors found before the first record; Throttled if the limit of
        concurrent queries is reached; NotSupported if the engine is not installed.
        """
        ...

    async def open_prefix(self, caller: Caller, bucket: str, prefix: str, request: SelectRequest) -> RunningQuery:
        """Start a query on all objects under a prefix as one, in key order.

        Raises as `open` for each object, and as a listing. NoSuchKey if there is no object.
        """
        ...
