"""Spark writes rows: inserts, overwrites, deletes, updates and merges, in each format version and access mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import col

from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

COPY, MERGE = "copy-on-write", "merge-on-read"


@contextmanager
def setting(engine: Engine, name: str, value: str) -> Iterator[None]:
    """Set a session setting during a block."""
    engine.spark.conf.set(name, value)
    try:
        yield
    finally:
        engine.spark.conf.unset(name)


def operations(engine: Engine, table: str) -> list[str]:
    """The operation of each snapshot of a table, oldest first."""
    return [row[0] for row in engine.sql(f"SELECT operation FROM {table}.snapshots ORDER BY committed_at")]


# -- whole partitions ------------------------------------------------------------------------------------------------


def test_empty_table_is_overwritten(engine: Engine, namespace: str) -> None:
    for mode in ("static", "dynamic"):
        t = engine.table(namespace, mode)
        engine.sql(f"CREATE TABLE {t} (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part)")
        with setting(engine, "spark.sql.sources.partitionOverwriteMode", mode):
            engine.sql(f"INSERT OVERWRITE {t} VALUES (1, 'a'), (2, 'b')")
        assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == [(1, "a"), (2, "b")]
        assert operations(engine, t) == ["overwrite"]
    bare = engine.table(namespace, "bare")
    engine.sql(f"CREATE TABLE {bare} (id BIGINT) USING iceberg")
    engine.sql(f"INSERT OVERWRITE {bare} SELECT 1 WHERE false")
    engine.sql(f"INSERT OVERWRITE {bare} VALUES (1)")
    assert engine.sql(f"SELECT * FROM {bare}") == [(1,)]


def test_partitions_are_overwritten_statically_or_dynamically(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part)")
    engine.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    engine.sql(f"INSERT OVERWRITE {t} PARTITION (part = 'a') VALUES (10)")
    assert engine.sql(f"SELECT * FROM {t} ORDER BY part") == [(10, "a"), (2, "b"), (3, "c")]
    with setting(engine, "spark.sql.sources.partitionOverwriteMode", "dynamic"):
        engine.sql(f"INSERT OVERWRITE {t} VALUES (20, 'b'), (40, 'd')")
    assert engine.sql(f"SELECT * FROM {t} ORDER BY part") == [(10, "a"), (20, "b"), (3, "c"), (40, "d")]
    engine.sql(f"INSERT OVERWRITE {t} VALUES (0, 'z')")
    assert engine.sql(f"SELECT * FROM {t}") == [(0, "z")]
    engine.sql(f"DELETE FROM {t}")
    assert engine.sql(f"SELECT * FROM {t}") == []


def test_frames_are_appended_and_overwritten(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    frame = vended.spark.range(10).selectExpr("id", "id % 3 AS part")
    frame.writeTo(t).using("iceberg").partitionedBy(frame.part).create()
    frame.where("part = 1").writeTo(t).append()
    assert vended.value(f"SELECT count(*) FROM {t}") == 13
    frame.where("part = 1").writeTo(t).overwritePartitions()
    frame.limit(1).writeTo(t).overwrite(col("part") == 2)
    assert vended.sql(f"SELECT part, count(*) FROM {t} GROUP BY part ORDER BY part") == [(0, 5), (1, 3)]


def test_structured_streaming_copies_one_table_to_another(engine: Engine, namespace: str, tmp_path: Path) -> None:
    source, target = engine.table(namespace, "source"), engine.table(namespace, "target")
    for name in (source, target):
        engine.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")

    def flow() -> None:
        stream = engine.spark.readStream.table(source).writeStream.trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path)).toTable(target).awaitTermination()

    for number in range(2):
        engine.sql(f"INSERT INTO {source} VALUES ({number})")
        flow()
    flow()
    assert engine.sql(f"SELECT id FROM {target} ORDER BY id") == [(0,), (1,)]


def test_large_files_are_uploaded_in_parts(engine: Engine, lake: Lake, s3: Any, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(
        f"CREATE TABLE {t} (id BIGINT, noise STRING) USING iceberg"
        " TBLPROPERTIES ('write.parquet.compression-codec' = 'uncompressed')"
    )
    engine.sql(f"INSERT INTO {t} SELECT id, repeat(uuid(), 30) FROM range(0, 60000, 1, 1)")
    key = engine.value(f"SELECT file_path FROM {t}.files").removeprefix(f"s3://{lake.warehouse}/")
    assert re.search(r"-\d+\"$", s3.head_object(Bucket=lake.warehouse, Key=key)["ETag"])
    assert engine.sql(f"SELECT count(*), sum(length(noise)) FROM {t}") == [(60_000, 60_000 * 36 * 30)]


# -- row changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mode"), [(2, COPY), (2, MERGE), (3, COPY), (3, MERGE)])
def test_rows_are_deleted_updated_and_merged(engine: Engine, namespace: str, version: int, mode: str) -> None:
    t = engine.table(namespace)
    engine.sql(
        f"CREATE TABLE {t} (id BIGINT, state STRING, day DATE) USING iceberg PARTITIONED BY (day) TBLPROPERTIES"
        f" ('format-version' = '{version}', 'write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}',"
        f" 'write.merge.mode' = '{mode}')"
    )
    engine.sql(f"INSERT INTO {t} SELECT id, 'new', date_add(DATE '2026-01-01', CAST(id % 2 AS INT)) FROM range(10)")
    engine.sql(f"DELETE FROM {t} WHERE id IN (1, 2)")
    engine.sql(f"UPDATE {t} SET state = 'updated' WHERE id = 3")
    engine.sql(
        f"MERGE INTO {t} t USING (SELECT id + 7 AS id, DATE '2026-01-09' AS day FROM range(4)) s ON t.id = s.id"
        " WHEN MATCHED AND t.id = 7 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET state = 'merged', day = s.day"
        " WHEN NOT MATCHED THEN INSERT (id, state, day) VALUES (s.id, 'inserted', s.day)"
        " WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE"
    )
    assert engine.sql(f"SELECT id, state, dayofmonth(day) FROM {t} ORDER BY id") == [
        (3, "updated", 2),
        (4, "new", 1),
        (5, "new", 2),
        (6, "new", 1),
        (8, "merged", 9),
        (9, "merged", 9),
        (10, "inserted", 9),
    ]
    formats = {row[0] for row in engine.sql(f"SELECT file_format FROM {t}.all_delete_files")}
    assert formats == (set() if mode == COPY else {"PUFFIN"} if version == 3 else {"PARQUET"})


def test_delete_of_whole_files_writes_none(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} USING iceberg PARTITIONED BY (part) AS SELECT id, id % 3 AS part FROM range(9)")
    vended.sql(f"DELETE FROM {t} WHERE part = 1")
    assert operations(vended, t) == ["append", "delete"]
    assert vended.value(f"SELECT count(*) FROM {t}") == 6
    vended.sql(f"TRUNCATE TABLE {t}")
    assert vended.value(f"SELECT count(*) FROM {t}") == 0


# -- format 3 --------------------------------------------------------------------------------------------------------


def test_row_ids_survive_updates_and_compaction(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(
        f"CREATE TABLE {t} (id BIGINT, state STRING) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3', 'write.update.mode' = 'merge-on-read')"
    )
    engine.sql(f"INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(3)")
    engine.sql(f"INSERT INTO {t} SELECT /*+ COALESCE(1) */ id + 3, 'b' FROM range(2)")
    engine.sql(f"UPDATE {t} SET state = 'c' WHERE id = 1")
    lineage = f"SELECT id, _row_id, _last_updated_sequence_number FROM {t} ORDER BY id"
    expected = [(0, 0, 1), (1, 1, 3), (2, 2, 1), (3, 3, 2), (4, 4, 2)]
    assert engine.sql(lineage) == expected
    engine.sql(
        f"CALL {engine.catalog}.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
    )
    assert engine.value(f"SELECT count(*) FROM {t}.files") == 1
    assert engine.sql(lineage) == expected


def test_table_of_format_2_is_upgraded_and_its_rows_get_ids(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(
        f"CREATE TABLE {t} (id BIGINT) USING iceberg"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    vended.sql(f"INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(5)")
    vended.sql(f"DELETE FROM {t} WHERE id = 0")
    vended.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    vended.sql(f"DELETE FROM {t} WHERE id = 1")
    assert vended.sql(f"SELECT id FROM {t} ORDER BY id") == [(2,), (3,), (4,)]
    assert [row[0] for row in vended.sql(f"SELECT DISTINCT file_format FROM {t}.delete_files")] == ["PUFFIN"]
    vended.sql(f"INSERT INTO {t} VALUES (5)")
    ids = [row[0] for row in vended.sql(f"SELECT _row_id FROM {t} ORDER BY id")]
    assert len(set(ids)) == 4
    assert None not in ids


def test_variants_are_written_and_extracted(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    engine.sql(f"""INSERT INTO {t} SELECT 1, parse_json('{{"a": {{"b": [1, 2]}}}}') UNION ALL SELECT 2, NULL""")
    assert engine.sql(f"SELECT id, variant_get(v, '$.a.b[1]', 'int') FROM {t} ORDER BY id") == [(1, 2), (2, None)]


def test_manifests_are_merged_as_files_are_appended(vended: Engine, namespace: str) -> None:
    for version in (2, 3):
        t = vended.table(namespace, f"v{version}")
        vended.sql(
            f"CREATE TABLE {t} (id BIGINT) USING iceberg"
            f" TBLPROPERTIES ('format-version' = '{version}', 'commit.manifest.min-count-to-merge' = '3')"
        )
        row_ids: list[int] = []
        for number in range(5):
            vended.sql(f"INSERT INTO {t} VALUES ({number})")
            if version == 3:
                found = [row[0] for row in vended.sql(f"SELECT _row_id FROM {t} ORDER BY id")]
                assert found[:number] == row_ids
                assert len(set(found)) == number + 1
                row_ids = found
        assert vended.value(f"SELECT count(*) FROM {t}.manifests") < 5
        assert vended.sql(f"SELECT id FROM {t} ORDER BY id") == [(number,) for number in range(5)]
