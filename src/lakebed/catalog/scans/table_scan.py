"""Resolves a scan request against a table: snapshots, schema and bound filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.binding import ColumnNames
from lakebed.iceberg.expressions.bound import BoundExpression, predicates_in
from lakebed.iceberg.expressions.partitions import BoundSpec, bind_specs
from lakebed.iceberg.expressions.projection import inclusive
from lakebed.iceberg.expressions.residuals import ResidualEvaluator
from lakebed.iceberg.metadata.snapshots import Snapshot
from lakebed.iceberg.metadata.table import TableMetadata
from lakebed.iceberg.schema import Schema

from .requests import ScanRequest, bind_filter

__all__ = ["TableScan", "open_scan"]

_APPEND: Final = "append"


@dataclass(frozen=True)
class TableScan:
    """A scan to plan, with values that are computed once for all files."""

    table: TableMetadata
    schema: Schema
    snapshots: Mapping[int, Snapshot]
    """One snapshot, or the appending ones, oldest first; empty if there is nothing to read."""
    is_incremental: bool
    condition: BoundExpression
    layouts: Mapping[int, BoundSpec]
    stats_columns: frozenset[int]
    """Columns whose statistics the response includes."""
    min_rows: int | None
    _partition_filters: dict[int, BoundExpression] = field(default_factory=dict, init=False)
    _residuals: dict[int, ResidualEvaluator] = field(default_factory=dict, init=False)

    def layout(self, spec_id: int) -> BoundSpec:
        """The bound partition spec. Raises InvalidInput for an unknown spec."""
        layout = self.layouts.get(spec_id)
        if layout is None:
            raise InvalidInput(f"manifest has an unknown partition spec. spec={spec_id}")
        return layout

    def partition_filter(self, spec_id: int) -> BoundExpression:
        """The inclusive projection of the filter on a spec."""
        if spec_id not in self._partition_filters:
            self._partition_filters[spec_id] = inclusive(self.condition, self.layout(spec_id))
        return self._partition_filters[spec_id]

    def residuals(self, spec_id: int) -> ResidualEvaluator:
        """The residuals of the filter for files of a spec."""
        if spec_id not in self._residuals:
            self._residuals[spec_id] = ResidualEvaluator(self.condition, self.layout(spec_id))
        return self._residuals[spec_id]

    @cached_property
    def filtered_columns(self) -> frozenset[int]:
        """Columns in the filter."""
        return frozenset(claim.term.id for claim in predicates_in(self.condition))

    @cached_property
    def filter_size(self) -> int:
        """Predicates and literals to evaluate, and to write, for each file with a residual."""
        return sum(1 + len(claim.literals) for claim in predicates_in(self.condition))


def open_scan(table: TableMetadata, request: ScanRequest, schema_id: int | None = None) -> TableScan:
    """Resolve a request, in the schema that it names, or in that of an earlier resolution.

    Raises InvalidInput for what the table does not have.
    """
    snapshots, last = _snapshots(table, request)
    schema = table.schema
    if schema_id is not None:
        if schema_id not in table.schemas:
            raise InvalidInput(f"schema was removed from the table. schema={schema_id}")
        schema = table.schemas[schema_id]
    elif request.use_snapshot_schema and last is not None and last.schema_id is not None:
        schema = table.schemas.get(last.schema_id, schema)
    names = ColumnNames(schema, case_sensitive=request.case_sensitive)
    return TableScan(
        table=table,
        schema=schema,
        snapshots={snapshot.snapshot_id: snapshot for snapshot in snapshots},
        is_incremental=request.is_incremental,
        condition=bind_filter(request, names),
        layouts=bind_specs(table, schema),
        stats_columns=_stats_columns(request, names),
        min_rows=request.min_rows_requested,
    )


def _snapshots(table: TableMetadata, request: ScanRequest) -> tuple[Sequence[Snapshot], Snapshot | None]:
    """The snapshots to read, and the one whose schema the scan may use."""
    if request.start_snapshot_id is not None and request.end_snapshot_id is not None:
        end = _snapshot(table, request.end_snapshot_id, "end-snapshot-id")
        return _appends_between(table, request.start_snapshot_id, end), end
    if request.snapshot_id is not None:
        named = _snapshot(table, request.snapshot_id, "snapshot-id")
        return (named,), named
    current = table.current_snapshot
    return ((), None) if current is None else ((current,), current)


def _snapshot(table: TableMetadata, snapshot_id: int, argument: str) -> Snapshot:
    snapshot = table.snapshots.get(snapshot_id)
    if snapshot is None:
        raise InvalidInput(f"no such snapshot. {argument}={snapshot_id}", argument=argument)
    return snapshot


def _appends_between(table: TableMetadata, start_id: int, end: Snapshot) -> Sequence[Snapshot]:
    """The snapshots after the start, up to the end, that only added data. The start itself may have expired."""
    appends: list[Snapshot] = []
    passed: set[int] = set()
    snapshot: Snapshot | None = end
    while snapshot is not None and snapshot.snapshot_id != start_id:
        passed.add(snapshot.snapshot_id)
        if snapshot.operation == _APPEND:
            appends.append(snapshot)
        parent_id = snapshot.parent_snapshot_id
        if parent_id == start_id:
            break
        # Parent ids in a metadata file may form a cycle.
        snapshot = None if parent_id is None or parent_id in passed else table.snapshots.get(parent_id)
    if snapshot is None:
        raise InvalidInput(
            f"start snapshot is not an ancestor of the end, or snapshots between them have expired. start={start_id}"
            f" end={end.snapshot_id}",
            argument="start-snapshot-id",
        )
    return appends[::-1]


def _stats_columns(request: ScanRequest, names: ColumnNames) -> frozenset[int]:
    found = (names.find(name) for name in request.stats_fields or () if name is not None)
    return frozenset(column.id for column in found if column is not None)
