"""Rows of keys as their last changes made them: rows of before without the keys that changed, and those of the changes.

Only the changes are held in memory. Rows of before are looked at in portions as large as the changes are, so that
looking costs no more than reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Overlay"]

_BEFORE_UPDATE, _DELETE = 2, 4
"""The protocol's numbers of changes that make no row (`CHANGES`)."""

_PORTION_ROWS: Final = 128 * 1024
"""Rows of before that are looked at together, at least."""

_AT: Final = "at"
"""A number of rows, beside keys: these have no names of their own here."""


class Overlay:
    """The last change of each key."""

    def __init__(
        self, schema: pa.Schema, keys: Sequence[str], changes: Iterable[tuple[pa.RecordBatch, bytes]] = ()
    ) -> None:
        """Of changes in their order: rows of that schema, and the protocol's number of what happened to each."""
        self._names = list(keys)
        batches, codes = [], []
        for rows, happened in changes:
            numbers = np.frombuffer(happened, np.uint8)
            counts = numbers != _BEFORE_UPDATE
            codes.append(numbers[counts])
            batches.append(rows if counts.all() else rows.filter(pa.array(counts)))
        found = pa.Table.from_batches(batches, schema=schema).combine_chunks()
        happened_last = np.concatenate(codes) if codes else np.empty(0, np.uint8)
        last = _last_of_each(self._keys(found))
        self._changed = self._keys(found).take(last)
        self.rows: pa.Table = found.take(last.filter(pc.not_equal(pa.array(happened_last).take(last), _DELETE)))
        """What the changes made."""

    def over(self, before: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of before whose keys did not change, in their order."""
        if not self._changed.num_rows:
            yield from before
            return
        portion: list[pa.RecordBatch] = []
        count, enough = 0, max(_PORTION_ROWS, self._changed.num_rows)
        for batch in before:
            portion.append(batch)
            count += batch.num_rows
            if count >= enough:
                yield from self._unchanged(portion)
                portion, count = [], 0
        if portion:
            yield from self._unchanged(portion)

    def _unchanged(self, portion: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(portion)
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
        """The columns of the key, numbered: whatever they are called, nothing else is called so."""
        return pa.table({f"key{number}": rows.column(name) for number, name in enumerate(self._names)})


def _last_of_each(keys: pa.Table) -> pa.Array:
    """The number of the last row of each key, ascending."""
    numbered = keys.append_column(_AT, pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(keys.column_names, use_threads=False).aggregate([(_AT, "max")]).column(f"{_AT}_max")
    return pa.array(np.sort(last.to_numpy()))
