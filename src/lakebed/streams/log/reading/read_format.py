"""Converts stored batches to the format that readers get, and projects columns.

Changelogs are appended as rows. Converting them to Arrow costs several times as much as writing them, so it is done
only when they are read, by a `BatchRenderer`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, Protocol, TypeAlias

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogBuffer, LogRecordBatch, iterate_batches

from .projection import ColumnShape, project

__all__ = ["AS_STORED", "BatchRenderer", "ColumnShapes", "ReadFormat"]

ColumnShapes: TypeAlias = Callable[[int], Sequence[ColumnShape]]
"""Column shapes by schema id. Raises SCHEMA_NOT_EXIST."""

_CACHE_BYTES: Final = 16 * 1024 * 1024


class BatchRenderer(Protocol):
    """Renders stored batches for readers. Called from any thread, possibly more than once for a batch."""

    def render(self, stored: memoryview) -> bytes | None:
        """The batch in read format, at the same offsets; None if it is already stored in that format."""
        ...


class ReadFormat:
    """The read format of one log. Caches rendered batches: the end of a log often has several readers."""

    def __init__(
        self,
        layouts: ColumnShapes | None = None,
        rendering: BatchRenderer | None = None,
        has_schema: Callable[[int], bool] = lambda schema_id: True,
    ) -> None:
        """`has_schema` returns whether a schema exists: batches with another one would be unreadable."""
        self._layouts = layouts
        self._rendering = rendering
        self.has_schema = has_schema
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cached_bytes = 0

    def needs_conversion(self, columns: Sequence[int] | None) -> bool:
        """Whether reads differ from what is stored."""
        return columns is not None or self._rendering is not None

    @property
    def renders(self) -> bool:
        """Whether batches are rendered for readers."""
        return self._rendering is not None

    def check(self, columns: Sequence[int] | None) -> None:
        """Raise INVALID_COLUMN_PROJECTION unless the columns can be projected."""
        if columns is None:
            return
        if not columns or any(left >= right for left, right in pairwise(columns)):
            raise FlussError(
                ErrorCode.INVALID_COLUMN_PROJECTION, f"columns are not in ascending order. columns={list(columns)}"
            )
        if columns[0] < 0:
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, f"no such column. column={columns[0]}")
        if self._layouts is None:
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, "projection requires the Arrow log format")

    def convert(self, records: LogBuffer, columns: Sequence[int] | None, *, is_rendered: bool = False) -> bytes:
        """Render batches and project columns. Blocks while it computes."""
        pieces: list[LogBuffer] = []
        for batch in iterate_batches(records):
            rendered = batch if is_rendered else self._render(batch)
            if columns is None or self._layouts is None:
                pieces.append(rendered.view)
            else:
                pieces += project(rendered, columns, self._layouts(rendered.schema_id))
        return b"".join(pieces)

    def _render(self, batch: LogRecordBatch) -> LogRecordBatch:
        if self._rendering is None:
            return batch
        cached = self._cache.get(batch.base_offset)
        if cached is None:
            cached = self._rendering.render(batch.view)
            if cached is None:
                return batch
            self._add(batch.base_offset, cached)
        return next(iterate_batches(cached))

    def _add(self, offset: int, rendered: bytes) -> None:
        # Called from several threads. Each step is atomic; a miscount is corrected by the evictions.
        self._cache[offset] = rendered
        self._cached_bytes += len(rendered)
        while self._cached_bytes > _CACHE_BYTES and self._cache:
            try:
                _, dropped = self._cache.popitem(last=False)
            except KeyError:
                break
            self._cached_bytes -= len(dropped)


AS_STORED: Final = ReadFormat()
"""Batches as stored, with all columns."""
