"""Union reads of stream tables: planned once at fixed offsets, then read in parts, in any process.

The server publishes a snapshot and its tiered offsets together. The Iceberg table is read at that snapshot, and the
logs from those offsets to their ends at planning (ADR 34).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lakebed.client.access import ServerAccess
from lakebed.client.iceberg_tables import open_table
from lakebed.client.names import TableRef
from lakebed.client.streams.access import StreamAccess
from lakebed.client.streams.client import StreamClient
from lakebed.client.streams.kv_scans import KvBatchScanner
from lakebed.client.streams.lake import LakeTieringClient, TieredSnapshot
from lakebed.client.streams.log_ranges import RANGE_BYTES, read_range
from lakebed.client.streams.logs import EARLIEST, LATEST, LogRecords, StreamLog
from lakebed.client.streams.tables import Bucket, TableInfo, describe, list_offsets
from lakebed.core.errors import InvalidInput, NotFound

from .columns import BUCKET, ORIGIN, fitted, spark_schema
from .offsets import ReadSpan
from .records import RecordReader
from .tiering_offsets import readable_snapshot
from .union_plan import UnionPlan, chunks, plan_union

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table

__all__ = ["UnionPart", "UnionRead"]

PART_BYTES: Final = 128 * 1024 * 1024
"""Size of a part's Iceberg files."""
_HELD_BYTES: Final = 32 * 1024 * 1024
"""Size of files that are read together: batching small files saves requests."""

LakeFilter = Callable[["pa.Schema"], "BooleanExpression"]
"""Builds the row filter from the columns that the Iceberg table has."""


@dataclass(frozen=True, slots=True)
class UnionPart:
    """A part of a union read. Can be pickled."""

    files: tuple[FileScanTask, ...] = ()
    kept: BooleanExpression | None = None
    """The row filter on these files."""
    snapshot_id: int | None = None
    spans: tuple[ReadSpan, ...] = ()
    """Records after the tiered offsets. For KV tables all changes of keys that may be in the files."""
    has_changes: bool = True
    """Whether the part returns the changed rows of a KV table, besides the unchanged ones of its files."""
    scanned: Bucket | None = None


@dataclass(frozen=True, slots=True)
class UnionRead:
    """A union read of a stream table and its Iceberg table. Can be pickled."""

    table: TableInfo
    streams: StreamAccess
    access: ServerAccess
    lake: TableRef | None
    """The Iceberg table, if known."""
    columns: tuple[str, ...]
    has_origin: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, with the types of the Iceberg table."""
        import pyarrow as pa

        rows = self._typed(self.columns)
        return pa.schema([*rows, *ORIGIN]) if self.has_origin else rows

    def plan(self, kept: LakeFilter | None = None) -> list[UnionPart]:
        """Plan the read at fixed offsets. Raises FlussError, InvalidInput, and errors of opening the Iceberg table."""
        with self.streams.connect() as client:
            published = LakeTieringClient(client).latest(self.table.database, self.table.name, readable=True)
            if published is None:
                return list(self._stream_parts(self._planned(client, None)))
            if self.lake is None:
                raise InvalidInput(
                    f"the stream is tiered: name its warehouse. stream={self.table.path}",
                    argument="warehouse",
                )
            with open_table(self.access, self.lake) as table:
                plan = self._planned(client, self._state(published, table))
                return [*self._lake_parts(plan, table, self._filter(table, kept)), *self._stream_parts(plan)]

    def read(self, *parts: UnionPart) -> Iterator[pa.RecordBatch]:
        """The rows of parts. Connections are open while the generator is consumed.

        Raises NotFound if the snapshot expired meanwhile and its files were removed: plan again.
        """
        with ExitStack() as stack:
            client = stack.enter_context(self.streams.connect())
            table = None
            if self.lake is not None and any(part.files for part in parts):
                table = stack.enter_context(open_table(self.access, self.lake))
            for part in parts:
                if part.scanned is not None:
                    yield from self._scanned(client, part.scanned)
                elif self.table.schema.has_primary_key:
                    yield from self._rows(client, table, part)
                else:
                    yield from self._lake_rows(table, part, self.schema)
                    yield from self._records(client, part.spans)

    # -- planning ----------------------------------------------------------------------------------------------------

    def _planned(self, client: StreamClient, lake: TieredSnapshot | None) -> UnionPlan:
        """Plan with log ends that are read after the tiered offsets, so that the ends are never behind them."""
        found = describe(client, self.table.database, self.table.name)
        if found.id != self.table.id or (lake is not None and lake.table_id != found.id):
            raise InvalidInput(
                f"the table was dropped and created again: restart the read. table={self.table.path} id={self.table.id}"
                f" found={found.id}"
            )
        begin, end = (list_offsets(client, found, which) for which in (EARLIEST, LATEST))
        return plan_union(lake, begin, end, has_primary_key=self.table.schema.has_primary_key)

    def _state(self, published: TieredSnapshot, table: Table) -> TieredSnapshot | None:
        names = table.schema().column_names
        if missing := [name for name in ORIGIN.names if name not in names]:
            raise InvalidInput(
                f"the Iceberg table was not created by tiering. table={self.lake} missing={', '.join(missing)}"
            )
        current = table.current_snapshot()
        rows = [
            {
                "snapshot_id": each.snapshot_id,
                "parent_id": each.parent_snapshot_id,
                "summary": {} if each.summary is None else each.summary.additional_properties,
            }
            for each in table.snapshots()
        ]
        return readable_snapshot(published, rows, None if current is None else current.snapshot_id)

    def _filter(self, table: Table, kept: LakeFilter | None) -> BooleanExpression:
        from pyiceberg.expressions import AlwaysTrue

        if kept is None:
            return AlwaysTrue()
        existing = set(table.schema().column_names)
        return kept(self._typed([name for name in self.table.schema.names if name in existing]))

    def _lake_parts(self, plan: UnionPlan, table: Table, kept: BooleanExpression) -> Iterator[UnionPart]:
        """Parts of Iceberg files. For KV tables, files of changed buckets come with the changes."""
        from pyiceberg.expressions import And, In, SetPredicate

        if plan.lake is None:
            return
        at = plan.lake.snapshot_id
        changed = plan.tails_by_bucket() if self.table.schema.has_primary_key else {}
        if not changed:
            yield from _file_parts(table, at, kept)
            return
        # Type checkers see the Pydantic constructor of In; its parent has the real one.
        is_in: type[SetPredicate] = In
        for bucket, spans in changed.items():
            found = [*_file_parts(table, at, And(kept, is_in(BUCKET, {bucket})))] or [UnionPart()]
            for number, part in enumerate(found):
                yield replace(part, spans=tuple(spans), has_changes=not number)
        # Not as "not in changed": file bounds prune only by inclusion.
        if others := set(range(self.table.bucket_count)) - changed.keys():
            yield from _file_parts(table, at, And(kept, is_in(BUCKET, others)))

    def _stream_parts(self, plan: UnionPlan) -> Iterator[UnionPart]:
        """Parts that need no Iceberg files."""
        if not self.table.schema.has_primary_key:
            yield from (UnionPart(spans=(span,)) for span in plan.tails)
        yield from (UnionPart(scanned=bucket) for bucket in plan.scanned)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _rows(self, client: StreamClient, table: Table | None, part: UnionPart) -> Iterator[pa.RecordBatch]:
        """Rows of a part of a KV table."""
        from .union_overlay import Overlay

        keys = self.table.schema.primary_key
        schema = self._typed(tuple(dict.fromkeys((*keys, *self.columns))))
        changes = (
            (_batch(fitted(found.rows, schema), schema), found.changes)
            for span in part.spans
            for found in self._tail(client, span, schema.names)
        )
        overlay = Overlay(schema, keys, changes)
        for batch in overlay.over(self._lake_rows(table, part, schema)):
            yield batch.select(list(self.columns))
        if part.has_changes:
            yield from overlay.rows.select(list(self.columns)).to_batches()

    def _records(self, client: StreamClient, spans: Sequence[ReadSpan]) -> Iterator[pa.RecordBatch]:
        """Log records of spans."""
        reader = RecordReader(self.table, self.columns, has_origin=self.has_origin)
        for span in spans:
            yield from reader.read(client, span)

    def _tail(self, client: StreamClient, span: ReadSpan, columns: Sequence[str]) -> Iterator[LogRecords]:
        partition_id, bucket = span.bucket
        log = StreamLog(client, self.table.physical(partition_id), columns=columns, bucket_bytes=RANGE_BYTES)
        return read_range(client, log, bucket, span.start, span.end)

    def _scanned(self, client: StreamClient, which: Bucket) -> Iterator[pa.RecordBatch]:
        partition_id, bucket = which
        of_table, schema = self.table.physical(partition_id), self.schema
        with KvBatchScanner(client, of_table, buckets=[bucket], columns=self.columns) as scan:
            for batch in scan:
                yield _batch(fitted(batch, schema), schema)

    def _lake_rows(self, table: Table | None, part: UnionPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of Iceberg files. Columns that the table does not have yet are null."""
        if table is None or not part.files:
            return
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        existing = [name for name in schema.names if name in table.schema().column_names]
        projected = table.schema().select(*existing)
        scan = ArrowScan(table.metadata, table.io, projected, part.kept or AlwaysTrue())
        for files in chunks(((file, file.file.file_size_in_bytes) for file in part.files), _HELD_BYTES):
            try:
                for batch in scan.to_record_batches(files):
                    yield _fitted_by_name(batch, schema)
            except FileNotFoundError as error:
                raise NotFound(
                    "the snapshot expired during the read, and its files were removed: restart the read."
                    f" table={self.lake} snapshot={part.snapshot_id}"
                ) from error

    def _typed(self, columns: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        whole = self.table.arrow
        return spark_schema(pa.schema([whole.field(name) for name in columns]))


def _file_parts(table: Table, snapshot_id: int, kept: BooleanExpression) -> Iterator[UnionPart]:
    """Parts of files that may have matching rows, planned by the server."""
    files = table.scan(row_filter=kept, snapshot_id=snapshot_id).plan_files()
    for chunk in chunks(((file, file.file.file_size_in_bytes) for file in files), PART_BYTES):
        yield UnionPart(tuple(chunk), kept, snapshot_id)


def _fitted_by_name(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    existing = set(rows.schema.names)
    columns = [
        rows.column(field.name).cast(field.type, safe=False)
        if field.name in existing
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return _batch(columns, schema)


def _batch(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(list(columns), schema=schema)
