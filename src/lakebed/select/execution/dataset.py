"""A scan as an Arrow dataset, which DataFusion reads by fragments and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from lakebed.core.errors import LakebedError

from .scanning import BatchReader, Scan


class ScanDataset(dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A scan with the methods of a dataset that DataFusion calls.

    Each reader is a fragment, which DataFusion reads as a partition, in a thread of its own if there are several.
    """

    def __init__(
        self, scan: Scan, readers: int, record_error: Callable[[LakebedError], None], *, in_order: bool
    ) -> None:
        # Without the initializer of Arrow's class, which cannot be called.
        self._scan = scan
        self._readers = readers
        self._in_order = in_order
        self._record_error = record_error

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.schema

    def scanner(self, columns: list[str] | None = None, filter: object = None, **others: object) -> _Scanner:
        """A scanner without batches: DataFusion only reads its schema."""
        self._scan.prune(filter)
        return _Scanner(self._scan.schema, columns, _no_batches, self._record_error)

    def get_fragments(self, filter: object = None) -> list[_Fragment]:
        """One fragment per reader."""
        return [
            _Fragment(self._scan, batches, self._record_error)
            for batches in self._scan.readers(self._readers, in_order=self._in_order)
        ]


class _Fragment:
    def __init__(self, scan: Scan, batches: BatchReader, record_error: Callable[[LakebedError], None]) -> None:
        self._scan = scan
        self._batches = batches
        self._record_error = record_error

    def scanner(self, schema: pa.Schema, columns: list[str] | None = None, **others: object) -> _Scanner:
        return _Scanner(self._scan.schema, columns, self._batches, self._record_error)


class _Scanner:
    def __init__(
        self,
        schema: pa.Schema,
        columns: list[str] | None,
        batches: BatchReader,
        record_error: Callable[[LakebedError], None],
    ) -> None:
        self._columns = schema.names if columns is None else columns
        self._batches = batches
        self._record_error = record_error
        self.projected_schema = pa.schema([schema.field(name) for name in self._columns])

    def to_batches(self) -> Iterator[Any]:
        try:
            yield from self._batches(self._columns)
        except LakebedError as error:
            self._record_error(error)
            raise


def _no_batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
    return iter(())
