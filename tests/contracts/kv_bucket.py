"""The contract of a KV bucket, for every KV index.

Subclass `KvBucketContract` and define a fixture `open_index` that opens the index of one bucket. Changes applied before
a close must be present when it is opened again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from lakebed.core.clock import ManualClock
from lakebed.fluss.arrow_types import arrow_schema
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.kv_batches import write_kv_batch
from lakebed.fluss.log_batches import iterate_batches
from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, TypeRoot
from lakebed.streams.kv.auto_increment import AutoIncrement
from lakebed.streams.kv.bucket import KvBucket, open_kv_bucket
from lakebed.streams.kv.changelog import ChangelogRenderer
from lakebed.streams.kv.index.seam import KvIndex
from lakebed.streams.kv.table import KvSettings, KvTable
from lakebed.streams.log.reading.read_format import ReadFormat
from lakebed.streams.seam import Acks, KvPut, MergeMode
from tests.fixtures.memory_index import MemoryIndex
from tests.fixtures.memory_log import MemoryLog

OpenIndex = Callable[[], KvIndex]

KEY = DataType(TypeRoot.INT, is_nullable=False)
TEXT = DataType(TypeRoot.STRING)
LONG = DataType(TypeRoot.BIGINT)
PLAIN = Schema.of([("k", KEY), ("name", TEXT), ("n", LONG)], primary_key=["k"])
SIGNS = {0: "+A", 1: "+I", 2: "-U", 3: "+U", 4: "-D"}


def key_of(number: int) -> bytes:
    """A key; keys are ordered like their numbers. The encoding of keys is up to the writer."""
    return struct.pack(">I", number)


@dataclass
class Bucket:
    """A KV bucket under test with its log, and helpers to write and decode rows."""

    kv: KvBucket
    log: MemoryLog
    table: KvTable
    schemas: dict[int, Schema]

    async def put(
        self,
        *rows: Sequence[Any] | int,
        columns: Sequence[int] = (),
        mode: MergeMode = MergeMode.MERGE,
        schema_id: int = 1,
        acks: Acks = Acks.ALL,
    ) -> int:
        """Write rows; a number alone deletes the row of that key."""
        return await self.kv.put(KvPut(self.batch(*rows, schema_id=schema_id), columns, mode), acks)

    def batch(self, *rows: Sequence[Any] | int, schema_id: int = 1, writer_id: int = -1, sequence: int = -1) -> bytes:
        records: list[tuple[bytes, bytes | None]] = []
        for row in rows:
            if isinstance(row, int):
                records.append((key_of(row), None))
            else:
                records.append((key_of(row[0]), self.table.layout(schema_id).encode(row)))
        return write_kv_batch(records, schema_id, writer_id, sequence)

    async def row(self, key: int) -> tuple[Any, ...] | None:
        (value,) = await self.kv.lookup([key_of(key)])
        return None if value is None else self.decoded(value)

    def decoded(self, value: bytes) -> tuple[Any, ...]:
        schema_id = int.from_bytes(value[:2], "little")
        return self.table.layout(schema_id).decode(value[2:])

    def rows_of(self, pieces: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """The rows in a value batch."""
        batch = b"".join(pieces)
        length, magic, count = struct.unpack_from("<ibi", batch)
        assert (length, magic) == (len(batch) - 4, 0)
        rows, position = [], 9
        while position < len(batch):
            (size,) = struct.unpack_from("<i", batch, position)
            rows.append(self.decoded(batch[position + 4 : position + 4 + size]))
            position += 4 + size
        assert len(rows) == count
        return rows

    async def changelog(self, offset: int = 0) -> list[tuple[Any, ...]]:
        """The changelog: the sign of each change, then its row."""
        found = await self.log.read(offset, 1 << 30)
        changes: list[tuple[Any, ...]] = []
        for batch in iterate_batches(found.records):
            if not batch.record_count:
                continue
            body = bytes(batch.body)
            columns = pa.ipc.read_record_batch(
                pa.py_buffer(body[batch.record_count :]), arrow_schema(self.schemas[batch.schema_id])
            ).to_pylist()
            assert [len(columns), batch.last_offset_delta] == [batch.record_count, batch.record_count - 1]
            changes += [
                (SIGNS[type_], *row.values()) for type_, row in zip(body[: batch.record_count], columns, strict=True)
            ]
        return changes


class KvBucketContract:
    @pytest.fixture
    def open_index(self) -> OpenIndex:
        raise NotImplementedError

    async def open(
        self,
        open_index: OpenIndex,
        schema: Schema = PLAIN,
        properties: Mapping[str, str] | None = None,
        log: MemoryLog | None = None,
        schemas: Mapping[int, Schema] | None = None,
    ) -> Bucket:
        known = dict(schemas or {1: schema})
        settings = KvSettings.parse(known[max(known)], properties or {})
        table = KvTable(settings, known)
        rendering = ChangelogRenderer(table.schema, settings.row_format, settings.log_format, settings.compression)
        if log is None:
            log = MemoryLog(ManualClock(), read_format=ReadFormat(rendering=rendering))
        taken = 0

        async def take(count: int) -> int:
            nonlocal taken
            taken += count
            return taken - count + 1

        async def find_schema(schema_id: int) -> Schema:
            if schema_id not in known:
                raise FlussError(ErrorCode.SCHEMA_NOT_EXIST)
            return known[schema_id]

        counter = AutoIncrement(take, settings.counter_cache) if schema.auto_increment else None
        kv = await open_kv_bucket(table, log, open_index(), find_schema, counter)
        return Bucket(kv, log, table, known)

    async def test_lookup_returns_the_latest_row(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        assert await bucket.put((1, "a", 10), (2, "b", None)) == 2
        assert await bucket.put((1, "c", 11)) == 4
        assert await bucket.row(1) == (1, "c", 11)
        assert await bucket.row(2) == (2, "b", None)
        assert await bucket.row(3) is None
        assert bucket.kv.row_count == 2
        await bucket.kv.close()

    async def test_every_change_is_in_the_changelog(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", 1), (2, "b", 2))
        await bucket.put((1, "a", 1), 2, 3)
        assert await bucket.changelog() == [
            ("+I", 1, "a", 1),
            ("+I", 2, "b", 2),
            ("-U", 1, "a", 1),
            ("+U", 1, "a", 1),
            ("-D", 2, "b", 2),
        ]
        assert bucket.kv.row_count == 1
        await bucket.kv.close()

    async def test_key_written_twice_in_a_batch_is_changed_twice(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", 1), (1, "b", 2), 1, (1, "c", 3))
        assert await bucket.changelog() == [
            ("+I", 1, "a", 1),
            ("-U", 1, "a", 1),
            ("+U", 1, "b", 2),
            ("-D", 1, "b", 2),
            ("+I", 1, "c", 3),
        ]
        assert await bucket.row(1) == (1, "c", 3)
        assert bucket.kv.row_count == 1
        await bucket.kv.close()

    async def test_put_without_changes_takes_an_offset(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        assert await bucket.put(7) == 1
        assert await bucket.put((1, "a", 1)) == 2
        assert await bucket.changelog() == [("+I", 1, "a", 1)]
        await bucket.kv.close()

    async def test_concurrent_puts_see_each_others_rows(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await asyncio.gather(*(bucket.put((1, "a", number)) for number in range(20)))
        changes = await bucket.changelog()
        assert changes[0] == ("+I", 1, "a", 0)
        assert changes[1:] == [(sign, 1, "a", number + (sign == "+U")) for number in range(19) for sign in ("-U", "+U")]
        assert await bucket.row(1) == (1, "a", 19)
        await bucket.kv.close()

    async def test_repeated_batch_changes_nothing(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        first = bucket.batch((1, "a", 1), writer_id=5, sequence=0)
        assert await bucket.kv.put(KvPut(first), Acks.ALL) == 1
        assert await bucket.put((1, "b", 2)) == 3
        assert await bucket.kv.put(KvPut(first), Acks.ALL) == 1
        assert await bucket.row(1) == (1, "b", 2)
        assert bucket.log.end_offset == 3
        with pytest.raises(FlussError) as failed:
            await bucket.kv.put(KvPut(bucket.batch((1, "c", 3), writer_id=5, sequence=2)), Acks.ALL)
        assert failed.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE
        assert await bucket.row(1) == (1, "b", 2)
        await bucket.kv.close()

    @pytest.mark.parametrize("acks", [Acks.NONE, Acks.LEADER])
    async def test_put_without_full_acks_becomes_visible(self, open_index: OpenIndex, acks: Acks) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", 1), acks=acks)
        await bucket.put((2, "b", 1))
        assert await bucket.row(1) == (1, "a", 1)
        await bucket.kv.close()

    async def test_corrupt_batch_is_rejected_and_changes_nothing(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        whole = bucket.batch((1, "abc", 1))
        broken_row = write_kv_batch([(key_of(1), b"\0\x01\x7fab")], 1)
        for bad in (b"", whole[:-1], whole[:20] + b"\1" + whole[21:], broken_row):
            with pytest.raises(FlussError) as failed:
                await bucket.kv.put(KvPut(bad), Acks.ALL)
            assert failed.value.code is ErrorCode.CORRUPT_RECORD
        assert bucket.log.end_offset == 0
        with pytest.raises(FlussError) as failed:
            await bucket.kv.put(KvPut(write_kv_batch([(key_of(1), b"\0")], 9)), Acks.ALL)
        assert failed.value.code is ErrorCode.SCHEMA_NOT_EXIST
        await bucket.kv.close()

    async def test_prefix_lookup_returns_rows_in_key_order(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put(*((number, "x", number) for number in (0x1FF, 0x100, 0x200, 0x180, 0xFF)))
        prefixes = [b"\0\0\1", b"\0\0\3", b"\xff"]
        found = await bucket.kv.lookup_prefixes(prefixes, 1000)
        assert [[bucket.decoded(value)[0] for value in each] for each in found] == [[0x100, 0x180, 0x1FF], [], []]
        size = sum(map(len, found[0]))
        assert await bucket.kv.lookup_prefixes(prefixes, size) == found
        with pytest.raises(FlussError) as failed:
            await bucket.kv.lookup_prefixes(prefixes, size - 1)
        assert failed.value.code is ErrorCode.RECORD_TOO_LARGE
        await bucket.kv.close()

    async def test_scan_reads_a_snapshot_in_key_order(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put(*((number, "row", number) for number in range(100, 0, -1)))
        scan = bucket.kv.scan()
        await bucket.put(5, (1, "changed", 0), (200, "new", 0))
        assert scan.log_offset == 100
        rows, has_more = [], True
        while has_more:
            batch, has_more = scan.next(200)
            assert sum(map(len, batch)) < 260
            rows += bucket.rows_of(batch)
        scan.close()
        assert rows == [(number, "row", number) for number in range(1, 101)]
        await bucket.kv.close()

    async def test_scan_returns_at_least_one_row_and_at_most_its_limit(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put(*((number, "row", number) for number in range(10)))
        scan = bucket.kv.scan(limit=3)
        sizes = []
        has_more = True
        while has_more:
            batch, has_more = scan.next(1)
            sizes.append(len(bucket.rows_of(batch)))
        scan.close()
        scan.close()
        assert sizes == [1, 1, 1]
        full_scan = bucket.kv.scan(limit=100)
        batch, has_more = full_scan.next(1 << 20)
        assert (len(bucket.rows_of(batch)), has_more) == (10, False)
        full_scan.close()
        await bucket.kv.close()

    async def test_scan_of_empty_bucket_returns_no_rows(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        scan = bucket.kv.scan()
        batch, has_more = scan.next(1024)
        assert (bucket.rows_of(batch), has_more, scan.log_offset) == ([], False, 0)
        scan.close()
        await bucket.kv.close()

    async def test_changes_missing_from_the_index_are_replayed_from_the_log(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", 1), (2, "b", 2))
        await bucket.put((1, "c", 3), 2, (3, "d", 4))
        await bucket.kv.close()
        again = await self.open(open_index, log=bucket.log)
        assert [await again.row(key) for key in (1, 2, 3)] == [(1, "c", 3), None, (3, "d", 4)]
        assert again.kv.row_count == 2
        assert again.kv.scan().log_offset == bucket.log.end_offset
        await again.kv.close()

    async def test_opening_fails_if_the_log_lacks_changes_missing_from_the_index(self) -> None:
        bucket = await self.open(MemoryIndex)
        await bucket.put((1, "a", 1))
        await bucket.put((2, "b", 1))
        bucket.log.forget(1)
        with pytest.raises(FlussError) as failed:
            await self.open(MemoryIndex, log=bucket.log)
        assert failed.value.code is ErrorCode.KV_STORAGE
        await bucket.kv.close()

    async def test_partial_updates_change_only_their_columns(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", None), columns=[0, 1])
        await bucket.put((1, None, 7), columns=[0, 2])
        assert await bucket.row(1) == (1, "a", 7)
        await bucket.put((1, "ignored", 9), columns=[0])
        await bucket.put(1, columns=[0, 1])
        assert await bucket.row(1) == (1, None, 7)
        await bucket.put(1, columns=[0, 2])
        assert await bucket.row(1) is None
        assert [change[0] for change in await bucket.changelog()] == ["+I", "-U", "+U", "-U", "+U", "-D"]
        await bucket.kv.close()

    @pytest.mark.parametrize("columns", [[1], [0, 5], [-1, 0]])
    async def test_invalid_target_columns_are_rejected(self, open_index: OpenIndex, columns: list[int]) -> None:
        bucket = await self.open(open_index)
        with pytest.raises(FlussError) as failed:
            await bucket.put((1, "a", 1), columns=columns)
        assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
        await bucket.kv.close()

    async def test_first_row_merge_engine_keeps_the_first_row(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index, properties={"table.merge-engine": "first_row"})
        await bucket.put((1, "a", 1), (1, "b", 2))
        await bucket.put((1, "c", 3), 1)
        assert await bucket.row(1) == (1, "a", 1)
        assert await bucket.changelog() == [("+I", 1, "a", 1)]
        await bucket.put((1, "undone", 0), mode=MergeMode.OVERWRITE)
        assert await bucket.row(1) == (1, "undone", 0)
        await bucket.kv.close()

    async def test_versioned_merge_engine_keeps_the_newest_version(self, open_index: OpenIndex) -> None:
        properties = {"table.merge-engine": "VERSIONED", "table.merge-engine.versioned.ver-column": "n"}
        bucket = await self.open(open_index, properties=properties)
        await bucket.put((1, "no version", None), (1, "five", 5), (1, "four", 4), (1, "none", None), (1, "also", 5))
        assert await bucket.row(1) == (1, "also", 5)
        assert [change[0] for change in await bucket.changelog()] == ["+I", "-U", "+U", "-U", "+U"]
        await bucket.kv.close()

    async def test_deletes_can_be_disabled(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index, properties={"table.delete.behavior": "DISABLE"})
        await bucket.put((1, "a", 1))
        with pytest.raises(FlussError) as failed:
            await bucket.put(1)
        assert failed.value.code is ErrorCode.DELETION_DISABLED
        assert await bucket.row(1) == (1, "a", 1)
        await bucket.kv.close()

    async def test_aggregation_merge_engine_aggregates_columns(self, open_index: OpenIndex) -> None:
        def column(name: str, root: str, function: str | None = None, **parameters: str) -> dict[str, Any]:
            document: dict[str, Any] = {"name": name, "data_type": {"type": root}}
            if function is not None:
                document["agg_function"] = {"type": function, "parameters": parameters}
            return document

        schema = Schema.parse(
            {
                "columns": [
                    column("k", "INTEGER"),
                    column("total", "BIGINT", "sum"),
                    column("most", "INTEGER", "max"),
                    column("all", "STRING", "listagg", delimiter="|"),
                    column("first", "STRING", "first_value"),
                    column("any", "BOOLEAN", "bool_or"),
                    column("last", "STRING"),
                ],
                "primary_key": ["k"],
            }
        )
        bucket = await self.open(open_index, schema, {"table.merge-engine": "aggregation"})
        await bucket.put(
            (1, 5, 3, "a", "x", False, "p"), (1, None, 7, "b", "y", True, None), (1, 6, 2, None, None, None, "q")
        )
        assert await bucket.row(1) == (1, 11, 7, "a|b", "x", True, "q")
        await bucket.put((1, 100, 100, "no", "no", False, "no"), columns=[0, 1])
        assert await bucket.row(1) == (1, 111, 7, "a|b", "x", True, "q")
        await bucket.put(1)
        assert await bucket.row(1) is not None
        await bucket.kv.close()

    async def test_wal_changelog_image_has_only_the_new_row(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index, properties={"table.changelog.image": "WAL"})
        await bucket.put((1, "a", 1), (2, "b", 2), (1, "c", 3))
        await bucket.put((2, "d", 4), 1, (1, "e", 5), 9)
        assert await bucket.changelog() == [
            ("+U", 1, "a", 1),
            ("+U", 2, "b", 2),
            ("+U", 1, "c", 3),
            ("+U", 2, "d", 4),
            ("-D", 1, "c", 3),
            ("+U", 1, "e", 5),
        ]
        assert await bucket.row(1) == (1, "e", 5)
        assert bucket.kv.row_count is None
        await bucket.kv.close()
        replayed = await self.open(MemoryIndex, log=bucket.log, properties={"table.changelog.image": "WAL"})
        assert (await replayed.row(1), replayed.kv.row_count) == ((1, "e", 5), None)
        await replayed.kv.close()

    async def test_auto_increment_numbers_new_keys(self, open_index: OpenIndex) -> None:
        schema = Schema.of([("k", KEY), ("id", LONG), ("name", TEXT)], primary_key=["k"], auto_increment="id")
        bucket = await self.open(open_index, schema, {"table.auto-increment.cache-size": "3"})
        await bucket.put((10, None, "a"), (11, None, "b"), (10, None, "c"), columns=[0, 2])
        await bucket.put((12, None, "d"), (13, None, "e"), columns=[0, 2])
        rows = [await bucket.row(key) for key in (10, 11, 12, 13)]
        assert rows == [(10, 1, "c"), (11, 2, "b"), (12, 3, "d"), (13, 4, "e")]
        for columns in ([], [0, 1]):
            with pytest.raises(FlussError) as failed:
                await bucket.put((14, 7, "x"), columns=columns)
            assert failed.value.code is ErrorCode.INVALID_TARGET_COLUMN
        await bucket.kv.close()

    @pytest.mark.parametrize("format_", ["COMPACTED", "INDEXED"])
    async def test_lookup_or_insert_creates_absent_keys(self, open_index: OpenIndex, format_: str) -> None:
        schema = Schema.of([("k", KEY), ("id", LONG), ("t", TEXT)], primary_key=["t", "k"], auto_increment="id")
        bucket = await self.open(open_index, schema, {"table.kv.format": format_})
        key, other = b"\x02ab\x07", b"\x00\xff\xff\xff\xff\x0f"
        found = await bucket.kv.lookup_or_insert([key, other, key])
        assert [bucket.decoded(value or b"") for value in found] == [(7, 1, "ab"), (-1, 2, ""), (7, 1, "ab")]
        assert await bucket.kv.lookup_or_insert([key]) == await bucket.kv.lookup([key])
        assert bucket.log.end_offset == 2
        for bad in (b"", b"\x09ab\x07", key + b"\0"):
            with pytest.raises(FlussError) as failed:
                await bucket.kv.lookup_or_insert([bad])
            assert failed.value.code is ErrorCode.CORRUPT_RECORD
        await bucket.kv.close()

    async def test_rows_of_an_older_schema_are_read_with_the_newer_one(self, open_index: OpenIndex) -> None:
        schemas = {1: PLAIN}
        bucket = await self.open(open_index, schemas=schemas)
        await bucket.put((1, "a", 1), (2, "b", 2))
        bucket.schemas[2] = PLAIN.with_column("added", TEXT)
        bucket.table.add_schema(2, bucket.schemas[2])
        await bucket.put((1, "c", 3, "new"), schema_id=2)
        await bucket.put((2, "old writer", 4))
        await bucket.put((2, None, None, "part"), columns=[0, 3], schema_id=2)
        assert await bucket.row(1) == (1, "c", 3, "new")
        assert await bucket.row(2) == (2, "old writer", 4, "part")
        assert (await bucket.changelog(2))[:4] == [
            ("-U", 1, "a", 1, None),
            ("+U", 1, "c", 3, "new"),
            ("-U", 2, "b", 2, None),
            ("+U", 2, "old writer", 4, None),
        ]
        await bucket.kv.close()

    async def test_unknown_schema_is_loaded_on_put(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        bucket.schemas[2] = PLAIN.with_column("added", TEXT)
        later = KvTable(bucket.table.settings, bucket.schemas)
        record = (key_of(1), later.layout(2).encode((1, "a", 1, "b")))
        with pytest.raises(FlussError):
            await bucket.kv.put(KvPut(write_kv_batch([record], 3)), Acks.ALL)
        await bucket.kv.put(KvPut(write_kv_batch([record], 2)), Acks.ALL)
        assert await bucket.row(1) == (1, "a", 1, "b")
        await bucket.kv.close()

    async def test_indexed_row_format_is_supported(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index, properties={"table.kv.format": "INDEXED"})
        await bucket.put((1, "a", 10), (2, None, 20))
        await bucket.put((1, None, 11), columns=[0, 2])
        assert await bucket.row(1) == (1, "a", 11)
        assert await bucket.changelog() == [
            ("+I", 1, "a", 10),
            ("+I", 2, None, 20),
            ("-U", 1, "a", 10),
            ("+U", 1, "a", 11),
        ]
        await bucket.kv.close()

    async def test_closed_bucket_is_not_leader(self, open_index: OpenIndex) -> None:
        bucket = await self.open(open_index)
        await bucket.put((1, "a", 1))
        await bucket.kv.close()
        await bucket.kv.close()
        for call in (bucket.put((1, "b", 2)), bucket.kv.lookup([key_of(1)])):
            with pytest.raises(FlussError) as failed:
                await call
            assert failed.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
