"""Scans many objects as one: the first gives the columns, and each is opened when it is reached."""

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
"""Smaller objects are read by the thread that opened them: starting another takes longer."""


class OpenedObject(NamedTuple):
    """An opened object."""

    key: str
    source: ObjectBytes


class ObjectSupply(Protocol):
    """Supplies objects. Its methods block and may be called from any thread."""

    def take(self) -> OpenedObject | None:
        """The next object, which the caller closes; None after the last. Raises as a GET of the object."""
        ...

    def close(self) -> None:
        """Close objects that were not taken, and stop waiting calls. Idempotent."""
        ...


class MultiObjectScan:
    """Objects that are scanned once, in sequence or distributed to readers."""

    def __init__(
        self, first: OpenedObject, scan: Scan, supply: ObjectSupply, open_next: Callable[[OpenedObject], Scan]
    ) -> None:
        self._scan = scan
        self._waiting: tuple[OpenedObject, Scan] | None = (first, scan)
        self._supply = supply
        self._open_next = open_next
        self._lock = threading.Lock()
        self._open: dict[str, tuple[OpenedObject, Scan]] = {first.key: (first, scan)}
        self._condition: pa.compute.Expression | None = None
        self._stopped = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of the first object."""
        return self._scan.schema

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Prune each object."""
        self._condition = condition
        self._scan.prune(condition)

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """Readers that each read whole objects."""
        if in_order:
            return [lambda columns: self._read(columns, count)]
        return [lambda columns: self._read(columns, 1)] * count

    def stop(self) -> None:
        """Stop all readers."""
        self._stopped = True
        self._supply.close()
        with self._lock:
            open_scans = list(self._open.values())
            self._open.clear()
        for opened, scan in open_scans:
            scan.stop()
            opened.source.close()

    def _read(self, columns: list[str], count: int) -> Iterator[pa.RecordBatch]:
        while (taken := self._take()) is not None:
            opened, scan = taken
            try:
                threads = count if opened.source.size > _LARGE_BYTES else 1
                yield from scan.readers(threads, in_order=True)[0](columns)
            except SelectError as error:
                raise _with_key(error, opened.key) from error
            finally:
                with self._lock:
                    self._open.pop(opened.key, None)
                scan.stop()
                opened.source.close()

    def _take(self) -> tuple[OpenedObject, Scan] | None:
        with self._lock:
            if self._waiting is not None:
                taken, self._waiting = self._waiting, None
                return taken
        opened = self._supply.take()
        if opened is None:
            return None
        try:
            scan = self._open_next(opened)
            scan.prune(self._condition)
        except BaseException as error:
            opened.source.close()
            if isinstance(error, SelectError):
                raise _with_key(error, opened.key) from error
            raise
        with self._lock:
            if not self._stopped:
                self._open[opened.key] = (opened, scan)
                return opened, scan
        opened.source.close()
        raise Unavailable("the select was stopped")


def _with_key(error: SelectError, key: str) -> SelectError:
    return SelectError(f"{error} key={key}", code=error.code)
