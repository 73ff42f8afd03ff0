"""Union reads of stream tables on a running server, with Iceberg tables written by PyIceberg."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakebed.client.names import TableRef
from lakebed.client.streams.access import StreamAccess
from lakebed.client.streams.tables import describe
from lakebed.core.errors import InvalidInput, NotFound
from lakebed.core.secrets import Secret
from lakebed.pipeline.streams.union_read import UnionRead
from tests.clients.boto import connected, root_keys
from tests.clients.iceberg.lake import Lake, new_lake
from tests.clients.streams.serving import ROWS, StreamServer, make_table
from tests.clients.streams.tiering import tier_by_hand
from tests.pipeline.bench import access_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def lake(streams: StreamServer) -> Lake:
    return new_lake(streams.server)


def union(streams: StreamServer, lake: Lake, path: Any, *columns: str, table: str | None = None) -> UnionRead:
    keys = root_keys(streams.server)
    access = StreamAccess(streams.address, keys.access_key, Secret(keys.secret_key))
    with access.connect() as client:
        known = describe(client, path.database_name, path.table_name)
    where = TableRef(lake.warehouse, (path.database_name,), table or path.table_name)
    return UnionRead(known, access, access_of(lake, keys), where, columns or known.schema.names)


def rows(read: UnionRead, *parts: Any) -> list[tuple[Any, ...]]:
    found = pa.Table.from_batches(read.read(*(parts or read.plan())), schema=read.schema)
    return sorted(tuple(row.values()) for row in found.to_pylist())


async def append(table: Any, *numbers: int) -> None:
    writer = table.new_append().create_writer()
    for number in numbers:
        writer.append({"id": number, "name": "n", "score": 0.0})
    await writer.flush()


async def upsert(table: Any, *written: dict[str, Any], delete: tuple[dict[str, Any], ...] = ()) -> None:
    writer = table.new_upsert().create_writer()
    for row in written:
        writer.upsert(row)
    await writer.flush()
    for key in delete:
        writer.delete(key)
    await writer.flush()


async def test_plan_is_a_consistent_snapshot(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, bucket_count=2)
    await append(table, *range(6))
    tier_by_hand(streams, lake, table_path)
    await append(table, 6, 7)
    read = union(streams, lake, table_path, "id")
    pinned = read.plan()
    await append(table, 8)
    assert rows(read, *pinned) == [(number,) for number in range(8)]
    assert rows(read) == [(number,) for number in range(9)]


async def test_splits_of_a_kv_bucket_read_its_changes_once(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    written = [{"id": number, "name": "a", "score": 0.0} for number in range(4)]
    await upsert(table, *written)
    tier_by_hand(streams, lake, table_path)
    with lake.catalog() as catalog:
        # As after a tiering round without new keys: the same rows, in several files.
        there = catalog.load_table((table_path.database_name, "t"))
        old = there.scan().to_arrow()
        there.overwrite(old.slice(0, 2))
        there.append(old.slice(2))
        there.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in there.snapshots()[:-1]]).commit()
    await upsert(table, {"id": 0, "name": "b", "score": 0.0}, {"id": 9, "name": "c", "score": 0.0}, delete=({"id": 3},))
    monkeypatch.setattr("lakebed.pipeline.streams.union_read.PART_BYTES", 1)
    read = union(streams, lake, table_path, "id", "name")
    assert [len(part.files) for part in read.plan()] == [1, 1]
    assert rows(read) == [(0, "b"), (1, "a"), (2, "a"), (9, "c")]


async def test_untiered_partition_is_read_from_the_stream(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any, admin: Any
) -> None:
    schema = pa.schema([("id", pa.int32()), ("day", pa.string())])
    table = await make_table(connection, table_path, schema, primary_key=["id", "day"], partition_keys=["day"])
    await admin.create_partition(table_path, {"day": "mon"})
    await upsert(table, {"id": 1, "day": "mon"}, {"id": 2, "day": "mon"})
    tier_by_hand(streams, lake, table_path)
    await admin.create_partition(table_path, {"day": "tue"})
    await upsert(table, {"id": 1, "day": "tue"}, {"id": 3, "day": "mon"}, delete=({"id": 2, "day": "mon"},))
    read = union(streams, lake, table_path)
    assert rows(read) == [(1, "mon"), (1, "tue"), (3, "mon")]
    assert len([part for part in read.plan() if part.scanned is not None]) == 1
    # Records that the stream has expired are still in the lake.
    await admin.drop_partition(table_path, {"day": "mon"})
    assert rows(union(streams, lake, table_path)) == [(1, "mon"), (1, "tue"), (2, "mon")]


async def test_column_missing_in_the_lake_is_null_in_tiered_rows(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path)
    await append(table, 1)
    tier_by_hand(streams, lake, table_path)
    await append(table, 2)
    with lake.catalog() as catalog, catalog.load_table((table_path.database_name, "t")).update_schema() as change:
        change.delete_column("name")
    assert rows(union(streams, lake, table_path)) == [(1, None, 0.0), (2, "n", 0.0)]
    assert union(streams, lake, table_path).schema.names == ROWS.names


async def test_expired_snapshot_is_replaced_or_reported(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path, primary_key=["id"])
    await upsert(table, *({"id": number, "name": "n", "score": 0.0} for number in (1, 2)))
    published = tier_by_hand(streams, lake, table_path)
    await upsert(table, {"id": 3, "name": "n", "score": 0.0}, delete=({"id": 1},))
    read = union(streams, lake, table_path, "id")
    pinned = read.plan()
    with lake.catalog() as catalog:
        there = catalog.load_table((table_path.database_name, "t"))
        old = [task.file.file_path for task in there.scan().plan_files()]
        there.overwrite(there.scan().to_arrow())
        there.maintenance.expire_snapshots().by_id(published).commit()
    assert rows(read) == [(2,), (3,)]
    assert rows(read, *pinned) == [(2,), (3,)]
    with connected(streams.server) as s3:
        for path in old:
            bucket, _, key = path.removeprefix("s3://").partition("/")
            s3.delete_object(Bucket=bucket, Key=key)
    assert rows(read) == [(2,), (3,)]
    with pytest.raises(NotFound, match="expired during the read"):
        rows(read, *pinned)


async def test_lake_table_not_created_by_tiering_is_refused(
    streams: StreamServer, lake: Lake, connection: Any, table_path: Any
) -> None:
    table = await make_table(connection, table_path)
    await append(table, 1)
    tier_by_hand(streams, lake, table_path)
    with lake.catalog() as catalog:
        catalog.create_table((table_path.database_name, "other"), schema=ROWS)
    with pytest.raises(InvalidInput, match="was not created by tiering"):
        union(streams, lake, table_path, table="other").plan()
