"""A scan as DataFusion takes it: it knows Arrow's datasets, and asks one for its fragments and their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import dataset

from lakebed.core.errors import LakebedError

from .scanning import BatchReader, Scan


class ScanDataset(dataset.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """A scan with the methods of a dataset that DataFusion calls; it has none of the others.

    Each reader is a fragment, which becomes a partition: a thread of its own, if there is something to do in parallel.
    """

    def __init__(self, scan: Scan, readers: int, noted: Callable[[LakebedError], None], *, in_order: bool) -> None:
        # Not the initializer of Arrow's class: that one refuses to be called.
        self._scan = scan
        self._readers = readers
        self._in_order = in_order
        self._noted = noted

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._scan.schema

    def scanner(self, columns: list[str] | None = None, filter: object = None, **others: object) -> _Scanner:
        """What a scan of these columns would give: only its schema is asked for."""
        self._scan.prune(filter)
        return _Scanner(self._scan.schema, columns, _nothing, self._noted)

    def get_fragments(self, filter: object = None) -> list[_Fragment]:
        """The readers."""
        return [
            _Fragment(self._scan, batches, self._noted)
            for batches in self._scan.readers(self._readers, in_order=self._in_order)
        ]


class _Fragment:
    def __init__(self, scan: Scan, batches: BatchReader, noted: Callable[[LakebedError], None]) -> None:
        self._scan = scan
        self._batches = batches
        self._noted = noted

    def scanner(self, schema: pa.Schema, columns: list[str] | None = None, **others: object) -> _Scanner:
        return _Scanner(self._scan.schema, columns, self._batches, self._noted)


class _Scanner:
    def __init__(
        self, schema: pa.Schema, columns: list[str] | None, batches: BatchReader, noted: Callable[[LakebedError], None]
    ) -> None:
        self._columns = schema.names if columns is None else columns
        self._batches = batches
        self._noted = noted
        self.projected_schema = pa.schema([schema.field(name) for name in self._columns])

    def to_batches(self) -> Iterator[Any]:
        try:
            yield from self._batches(self._columns)
        except LakebedError as error:
            self._noted(error)
            raise


def _nothing(columns: list[str]) -> Iterator[pa.RecordBatch]:
    return iter(())
