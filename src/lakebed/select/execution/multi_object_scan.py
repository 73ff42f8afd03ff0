"""Many objects as one: the columns are those of the first, and each is opened when its turn comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa

from lakebed.core.errors import SelectError, Unavailable

from .scanning import BatchReader, Scan

if TYPE_CHECKING:
    from ..sources.object_bytes import ObjectBytes

_LARGE_BYTES: Final = 4 * 1024 * 1024
"""What is smaller is read by the thread that opened it: another would take longer to start."""


class OpenedObject(NamedTuple):
    """An object whose turn it is."""

    key: str
    source: ObjectBytes


class ObjectSupply(Protocol):
    """Where objects come from. Its methods block and may be called from any thread."""

    def take(self) -> OpenedObject | None:
        """The next object, to be closed by who takes it; None after the last. Raises what a GET of it raises."""
        ...

    def close(self) -> None:
        """Let go of those that nobody has taken, and of who waits for one. Idempotent."""
        ...


class MultiObjectScan:
    """Objects to be scanned once, one after the other or shared out among readers."""

    def __init__(
        self, first: OpenedObject, scan: Scan, supply: ObjectSupply, follow: Callable[[OpenedObject], Scan]
    ) -> None:
        self._scan = scan
        self._waiting: tuple[OpenedObject, Scan] | None = (first, scan)
        self._supply = supply
        self._follow = follow
        self._turn = threading.Lock()
        self._under_way: dict[str, tuple[OpenedObject, Scan]] = {first.key: (first, scan)}
        self._condition: pa.compute.Expression | None = None
        self._stopped = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first object."""
        return self._scan.schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Leave out parts of each object."""
        self._condition = condition
        self._scan.prune(condition)

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """Readers of whole objects."""
        if in_order:
            return [lambda columns: self._read(columns, count)]
        return [lambda columns: self._read(columns, 1)] * count

    def stop(self) -> None:
        """End all readers."""
        self._stopped = True
        self._supply.close()
        with self._turn:
            under_way = list(self._under_way.values())
            self._under_way.clear()
        for supplied, scan in under_way:
            scan.stop()
            supplied.source.close()

    def _read(self, columns: list[str], count: int) -> Iterator[pa.RecordBatch]:
        while (taken := self._take()) is not None:
            supplied, scan = taken
            try:
                threads = count if supplied.source.size > _LARGE_BYTES else 1
                yield from scan.readers(threads, in_order=True)[0](columns)
            except SelectError as error:
                raise _named(error, supplied.key) from error
            finally:
                with self._turn:
                    self._under_way.pop(supplied.key, None)
                scan.stop()
                supplied.source.close()

    def _take(self) -> tuple[OpenedObject, Scan] | None:
        with self._turn:
            if self._waiting is not None:
                taken, self._waiting = self._waiting, None
                return taken
        supplied = self._supply.take()
        if supplied is None:
            return None
        try:
            scan = self._follow(supplied)
            scan.prune(self._condition)
        except BaseException as error:
            supplied.source.close()
            if isinstance(error, SelectError):
                raise _named(error, supplied.key) from error
            raise
        with self._turn:
            if not self._stopped:
                self._under_way[supplied.key] = (supplied, scan)
                return supplied, scan
        supplied.source.close()
        raise Unavailable("the select was stopped")


def _named(error: SelectError, key: str) -> SelectError:
    return SelectError(f"{error} key={key}", code=error.code)
