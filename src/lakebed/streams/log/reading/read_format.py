"""Batches in the form in which they are read: some are stored in another, and readers may want a part of the columns.

Whoever writes changes of keys has them as rows, and as rows they are appended: turning them into Arrow costs several
times what writing them does, and is only due when somebody reads them. `BatchRenderer` is how.
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
"""The columns of a schema by its id. Raises SCHEMA_NOT_EXIST."""

_KEPT_BYTES: Final = 16 * 1024 * 1024


class BatchRenderer(Protocol):
    """Turns stored batches into those that are read. Called from any thread, and for one batch more than once."""

    def render(self, stored: memoryview) -> bytes | None:
        """The batch as it is read, at the same offsets (`batches.rewritten`); None if it is stored in that form."""
        ...


class ReadFormat:
    """How the batches of one log are read. What was rendered is kept for a while: tails have several readers."""

    def __init__(
        self,
        layouts: ColumnShapes | None = None,
        rendering: BatchRenderer | None = None,
        has_schema: Callable[[int], bool] = lambda schema_id: True,
    ) -> None:
        """`has_schema` tells whether there is a schema of this id: batches of another nobody could read."""
        self._layouts = layouts
        self._rendering = rendering
        self.has_schema = has_schema
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0

    def needs_conversion(self, columns: Sequence[int] | None) -> bool:
        """Whether bytes are read in another form than they are stored in."""
        return columns is not None or self._rendering is not None

    @property
    def renders(self) -> bool:
        """Whether batches are stored in another form than they are read in."""
        return self._rendering is not None

    def check(self, columns: Sequence[int] | None) -> None:
        """Raise INVALID_COLUMN_PROJECTION unless these can be columns to read."""
        if columns is None:
            return
        if not columns or any(left >= right for left, right in pairwise(columns)):
            raise FlussError(
                ErrorCode.INVALID_COLUMN_PROJECTION, f"columns are to be ascending. columns={list(columns)}"
            )
        if columns[0] < 0:
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, f"no such column. column={columns[0]}")
        if self._layouts is None:
            raise FlussError(ErrorCode.INVALID_COLUMN_PROJECTION, "records of this log have no columns to choose from")

    def convert(self, records: LogBuffer, columns: Sequence[int] | None, *, is_rendered: bool = False) -> bytes:
        """The batches as they are read, of these columns alone. Blocks for as long as it computes."""
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
        kept = self._kept.get(batch.base_offset)
        if kept is None:
            kept = self._rendering.render(batch.view)
            if kept is None:
                return batch
            self._keep(batch.base_offset, kept)
        return next(iterate_batches(kept))

    def _keep(self, offset: int, rendered: bytes) -> None:
        # Reads of one log may be in several threads: each step is whole by itself, and a miscount is bounded by what is
        # let go of below.
        self._kept[offset] = rendered
        self._kept_bytes += len(rendered)
        while self._kept_bytes > _KEPT_BYTES and self._kept:
            try:
                _, dropped = self._kept.popitem(last=False)
            except KeyError:
                break
            self._kept_bytes -= len(dropped)


AS_STORED: Final = ReadFormat()
"""As stored, and whole."""
