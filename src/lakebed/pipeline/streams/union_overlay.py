"""Applies a changelog to the rows of a KV table: tiered rows of unchanged keys, and the last rows of changed keys.

Only the changes are in memory. Tiered rows are joined with them in batches at least as large as the changes, so that
the join costs no more than the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Overlay"]

_BEFORE_UPDATE, _DELETE = 2, 4
"""Indexes into `CHANGES` of changes that produce no row."""

_BATCH_ROWS: Final = 128 * 1024
"""Minimum number of tiered rows per join."""

_AT: Final = "at"
"""The row number beside the key columns, which are renamed."""


class Overlay:
    """The last change of each key, applied to earlier rows."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], changes: Iterable[tuple[pa.RecordBatch, bytes]] = ()
    ) -> None:
        """`changes` are in log order: rows of the schema, and an index into `CHANGES` for each."""
        self._key_names = list(keys)
        batches, codes = [], []
        for rows, change_codes in changes:
            numbers = np.frombuffer(change_codes, np.uint8)
            counts = numbers != _BEFORE_UPDATE
            codes.append(numbers[counts])
            batches.append(rows if counts.all() else rows.filter(pa.array(counts)))
        found = pa.Table.from_batches(batches, schema=schema).combine_chunks()
        change_types = np.concatenate(codes) if codes else np.empty(0, np.uint8)
        last = _last_rows(self._keys(found))
        self._changed = self._keys(found).take(last)
        self.rows: pa.Table = found.take(last.filter(pc.not_equal(pa.array(change_types).take(last), _DELETE)))
        """The current rows of changed keys."""

    def over(self, before: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Earlier rows whose keys did not change, in order."""
        if not self._changed.num_rows:
            yield from before
            return
        pending: list[pa.RecordBatch] = []
        count, enough = 0, max(_BATCH_ROWS, self._changed.num_rows)
        for batch in before:
            pending.append(batch)
            count += batch.num_rows
            if count >= enough:
                yield from self._unchanged(pending)
                pending, count = [], 0
        if pending:
            yield from self._unchanged(pending)

    def _unchanged(self, pending: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(pending)
        keys = self._keys(rows)
        names = keys.column_names
        numbered = keys.append_column(_AT, pa.array(np.arange(rows.num_rows)))
        changed = numbered.join(self._changed, keys=names, join_type="left semi", use_threads=False).column(_AT)
        if changed.length():
            stays = np.ones(rows.num_rows, bool)
            stays[changed.to_numpy()] = False
            rows = rows.filter(pa.array(stays))
        yield from rows.to_batches()

    def _keys(self, rows: pa.Table) -> pa.Table:
        """The key columns under numbered names, which cannot collide."""
        return pa.table({f"key{number}": rows.column(name) for number, name in enumerate(self._key_names)})


def _last_rows(keys: pa.Table) -> pa.Array:
    """The number of the last row of each key, ascending."""
    numbered = keys.append_column(_AT, pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(keys.column_names, use_threads=False).aggregate([(_AT, "max")]).column(f"{_AT}_max")
    return pa.array(np.sort(last.to_numpy()))
