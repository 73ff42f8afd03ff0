"""Merge engines: what a write does to the row of an existing key, as functions of stored values.

A merge returns the new value. If it returns the old object itself, nothing changed and nothing is logged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.rows.fields import decode_field
from lakebed.fluss.schema import Schema
from lakebed.streams.seam import MergeMode

from .aggregation import BITMAP_FUNCTIONS, field_merge
from .table import DeleteBehavior, KvTable, MergeEngine

__all__ = ["RowMerger", "row_merger"]

Merge: TypeAlias = Callable[[bytes | None, bytes], bytes]
Delete: TypeAlias = Callable[[bytes], bytes | None]


@dataclass(frozen=True, slots=True)
class RowMerger:
    """How the records of one put are merged."""

    merge: Merge | None
    """Merges the existing value, if any, and the written one; None if the written one always replaces it."""

    delete: Delete | None
    """Returns what remains of a deleted value; None if nothing remains."""

    deletes: DeleteBehavior


def row_merger(table: KvTable, target_columns: Sequence[int], mode: MergeMode) -> RowMerger:
    """The merger for a put of these columns (empty: all). Raises INVALID_TARGET_COLUMN if it is not supported."""
    schema, settings = table.latest, table.settings
    targets = _targets(schema, target_columns)
    is_overwrite = mode is MergeMode.OVERWRITE
    engine = MergeEngine.LAST_ROW if is_overwrite else settings.engine
    deletes = DeleteBehavior.ALLOW if is_overwrite else settings.deletes
    if targets is not None and engine in (MergeEngine.FIRST_ROW, MergeEngine.VERSIONED):
        raise _bad(f"merge engine does not support partial updates. merge-engine={engine}")
    match engine:
        case MergeEngine.FIRST_ROW:
            return RowMerger(lambda old, new: new if old is None else old, None, deletes)
        case MergeEngine.VERSIONED:
            return RowMerger(_versioned(table), None, deletes)
        case MergeEngine.AGGREGATION:
            delete = None if targets is None else _partial_delete(table, targets)
            return RowMerger(_aggregated(table, targets), delete, deletes)
        case _ if targets is None:
            return RowMerger(_with_bitmaps(table, None, None), None, deletes)
        case _:
            merge = _with_bitmaps(table, targets, _partial(table, targets))
            return RowMerger(merge, _partial_delete(table, targets), deletes)


def _targets(schema: Schema, target_columns: Sequence[int]) -> frozenset[int] | None:
    """The positions that are written; None for all."""
    if schema.auto_increment_position is not None and (
        not target_columns or schema.auto_increment_position in target_columns
    ):
        raise _bad(
            "auto-increment column cannot be written: name the other columns as target columns. "
            f"column={schema.auto_increment}"
        )
    targets = frozenset(target_columns)
    if not targets:
        return None
    if min(targets) < 0 or max(targets) >= len(schema.columns):
        raise _bad(f"unknown target column. columns={sorted(targets)} count={len(schema.columns)}")
    keys = frozenset(schema.key_positions)
    if not keys <= targets:
        raise _bad(f"target columns lack primary key columns. columns={sorted(targets)} key={sorted(keys)}")
    if len(targets) == len(schema.columns):
        return None
    for position, column in enumerate(schema.columns):
        if position not in keys and not column.type.is_nullable:
            raise _bad(f"partial updates require all non-key columns to be nullable. column={column.name}")
    return targets


def _versioned(table: KvTable) -> Merge:
    schema = table.latest
    position = schema.position(table.settings.version_column or "")
    if position is None:
        raise FlussError(ErrorCode.INVALID_TABLE, f"unknown version column. column={table.settings.version_column}")
    type_, format_ = schema.columns[position].type, table.settings.row_format

    def version(value: bytes) -> Any:
        field = table.fields(value)[position]
        return None if field is None else decode_field(format_, type_, field)

    def merge(old: bytes | None, new: bytes) -> bytes:
        if old is None:
            return new
        before, after = version(old), version(new)
        return new if before is None or (after is not None and after >= before) else old

    return merge


def _partial(table: KvTable, targets: frozenset[int]) -> Merge:
    count = len(table.latest.columns)
    is_key_only = targets == frozenset(table.latest.key_positions)

    def merge(old: bytes | None, new: bytes) -> bytes:
        if old is not None and is_key_only:
            return old
        written = table.fields(new)
        kept: Sequence[bytes | None] = [None] * count if old is None else table.fields(old)
        return table.value([written[at] if at in targets else kept[at] for at in range(count)])

    return merge


def _partial_delete(table: KvTable, targets: frozenset[int]) -> Delete:
    cleared = targets - frozenset(table.latest.key_positions)

    def delete(old: bytes) -> bytes | None:
        fields = table.fields(old)
        if all(field is None for at, field in enumerate(fields) if at not in targets):
            return None
        return table.value([None if at in cleared else field for at, field in enumerate(fields)])

    return delete


def _aggregated(table: KvTable, targets: frozenset[int] | None) -> Merge:
    schema, format_ = table.latest, table.settings.row_format
    keys = frozenset(schema.key_positions)
    merges = [
        None if at in keys or (targets is not None and at not in targets) else field_merge(format_, column)
        for at, column in enumerate(schema.columns)
    ]
    check = _with_bitmaps(table, None, None)  # the first row is stored as written, all columns included

    def merge(old: bytes | None, new: bytes) -> bytes:
        if old is None:
            return new if check is None else check(old, new)
        before, after = table.fields(old), table.fields(new)
        return table.value(
            [
                kept if each is None else each(kept, written)
                for each, kept, written in zip(merges, before, after, strict=True)
            ]
        )

    return merge


def _with_bitmaps(table: KvTable, targets: frozenset[int] | None, merge: Merge | None) -> Merge | None:
    """The same merge (None: replacement), with validation of written bitmaps."""
    merges = [
        (at, field_merge(table.settings.row_format, column))
        for at, column in enumerate(table.latest.columns)
        if column.aggregation is not None and column.aggregation.function in BITMAP_FUNCTIONS
        if targets is None or at in targets
    ]
    if not merges:
        return merge

    def checked(old: bytes | None, new: bytes) -> bytes:
        fields = table.fields(new)
        for at, each in merges:
            each(None, fields[at])  # without an existing value it only validates the written one
        return new if merge is None else merge(old, new)

    return checked


def _bad(message: str) -> FlussError:
    return FlussError(ErrorCode.INVALID_TARGET_COLUMN, message)
