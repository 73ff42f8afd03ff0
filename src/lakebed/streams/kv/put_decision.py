"""Decides a put: from a batch and the existing values to the changes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import KvRecordBatch
from lakebed.fluss.rows.fields import encode_field

from .changelog import ChangelogRecords, ChangeType
from .merge_engines import RowMerger
from .table import ChangelogImage, DeleteBehavior, KvTable

__all__ = ["NextNumber", "PutDecision", "decide", "keys_to_read", "with_number"]

NextNumber: TypeAlias = Callable[[], int]
"""Returns the next value of the auto-increment column."""

_INSERT = int(ChangeType.INSERT)
_AFTER = int(ChangeType.UPDATE_AFTER)
_DELETE = int(ChangeType.DELETE)
_UPDATE = bytes((ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER))


@dataclass(frozen=True, slots=True)
class PutDecision:
    """The effects of a put."""

    changes: ChangelogRecords
    """To append to the log."""

    values: dict[bytes, bytes | None]
    """To apply to the index: the new value of each key, None if it is deleted."""

    added: int
    """The change of the number of keys, if it is counted."""


def keys_to_read(table: KvTable, batch: KvRecordBatch, merging: RowMerger) -> Sequence[bytes]:
    """The keys whose values are needed for the decision: all, unless values are replaced blindly."""
    if not _is_blind(table, merging):
        return batch.keys
    return [key for key, value in zip(batch.keys, batch.values, strict=True) if value is None]


def decide(
    table: KvTable,
    batch: KvRecordBatch,
    merging: RowMerger,
    olds: Sequence[bytes | None],
    number: NextNumber | None = None,
) -> PutDecision:
    """Decide a batch, given the values of `keys_to_read`. Raises DELETION_DISABLED."""
    if None in batch.values:
        return _decide(table, batch, merging, olds, number)
    if _is_blind(table, merging):
        values = [value for value in batch.values if value is not None]
        changes = ChangelogRecords(bytearray((_AFTER,)) * len(values), batch.keys, values)
        return PutDecision(changes, dict(zip(batch.keys, values, strict=True)), 0)
    if merging.merge is None and number is None and table.settings.image is ChangelogImage.FULL:
        uniform = _decide_uniform(batch, olds)
        if uniform is not None:
            return uniform
    return _decide(table, batch, merging, olds, number)


def with_number(table: KvTable, value: bytes, number: int) -> bytes:
    """The value with this number in its auto-increment column."""
    position = table.latest.auto_increment_position
    if position is None:
        return value
    fields = table.fields(value)
    fields[position] = encode_field(table.settings.row_format, table.latest.columns[position].type, number)
    return table.value(fields)


def _is_blind(table: KvTable, merging: RowMerger) -> bool:
    """Whether a write has the same changelog whatever the existing value is."""
    return table.settings.image is ChangelogImage.WAL and merging.merge is None and table.latest.auto_increment is None


def _decide_uniform(batch: KvRecordBatch, olds: Sequence[bytes | None]) -> PutDecision | None:
    """Decide a batch of replacements with full image whose keys are unique and all new or all existing.

    The fast path for most batches; None for others.
    """
    keys, values = batch.keys, [value for value in batch.values if value is not None]
    after: dict[bytes, bytes | None] = dict(zip(keys, values, strict=True))
    count = len(keys)
    if len(after) < count:
        return None
    if not any(olds):  # existing values are never empty: they begin with their schema id
        return PutDecision(ChangelogRecords(bytearray((_INSERT,)) * count, keys, values), after, count)
    if not all(olds):
        return None
    both_keys, both_values = [b""] * (2 * count), [b""] * (2 * count)
    both_keys[1::2] = keys
    both_values[0::2] = [old for old in olds if old is not None]
    both_values[1::2] = values
    return PutDecision(ChangelogRecords(bytearray(_UPDATE) * count, both_keys, both_values), after, 0)


def _decide(
    table: KvTable, batch: KvRecordBatch, merging: RowMerger, olds: Sequence[bytes | None], number: NextNumber | None
) -> PutDecision:
    changes = ChangelogRecords()
    types, keys, values = changes.types, changes.keys, changes.values
    after: dict[bytes, bytes | None] = {}
    is_full = table.settings.image is ChangelogImage.FULL
    is_blind = _is_blind(table, merging)
    merge = merging.merge
    found = iter(olds)
    added = 0
    for key, new in zip(batch.keys, batch.values, strict=True):
        # For a key that occurred earlier in the batch, the existing value is its result.
        if is_blind and new is not None:
            types.append(_AFTER)
            keys.append(key)
            values.append(new)
            after[key] = new
            continue
        old = next(found)
        if key in after:
            old = after[key]
        if new is None:
            if merging.deletes is DeleteBehavior.DISABLE:
                raise FlussError(ErrorCode.DELETION_DISABLED, "deletes are disabled by table.delete.behavior")
            if old is None or merging.deletes is DeleteBehavior.IGNORE:
                continue
            left = None if merging.delete is None else merging.delete(old)
            if left is None:
                types.append(_DELETE)
                keys.append(key)
                values.append(old)
                after[key] = None
                added -= 1
                continue
            merged = left
        else:
            merged = new if merge is None else merge(old, new)
        if merged is old:
            continue
        if old is None:
            if number is not None:
                merged = with_number(table, merged, number())
            types.append(_INSERT)
            keys.append(key)
            values.append(merged)
            added += 1
        elif is_full:
            types += _UPDATE
            keys += (b"", key)
            values += (old, merged)
        else:
            types.append(_AFTER)
            keys.append(key)
            values.append(merged)
        after[key] = merged
    return PutDecision(changes, after, added)
