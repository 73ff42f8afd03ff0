"""Spark's maintenance procedures: compaction, manifests, expiration, orphans, position deletes, statistics."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.clients.boto import all_keys, body_of
from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

LONG_HENCE = "TIMESTAMP '2999-01-01 00:00:00'"


def call(engine: Engine, procedure: str, **arguments: str) -> dict[str, Any]:  # Any: numbers and names
    """Call a procedure with arguments in SQL; its result row, by column."""
    written = ", ".join(f"{name} => {value}" for name, value in arguments.items())
    (row,) = engine.spark.sql(f"CALL {engine.catalog}.system.{procedure}({written})").collect()
    found: dict[str, Any] = row.asDict()
    return found


def prefix_of(engine: Engine, table: str) -> str:
    """The key prefix of a table's files."""
    location: str = {row[0]: row[1] for row in engine.sql(f"DESCRIBE EXTENDED {table}")}["Location"]
    return location.removeprefix(f"s3://{engine.lake.warehouse}/") + "/"


def files(engine: Engine, table: str, kind: str = "files") -> set[str]:
    return {row[0] for row in engine.sql(f"SELECT file_path FROM {table}.{kind}")}


@pytest.fixture
def scattered(engine: Engine, namespace: str) -> str:
    """A table of two partitions, four files in each."""
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id BIGINT, name STRING, part INT) USING iceberg PARTITIONED BY (part)")
    for number in range(4):
        engine.sql(
            f"INSERT INTO {t} SELECT id, concat('name-', 100 - id), CAST(id % 2 AS INT)"
            f" FROM range({number * 10}, {number * 10 + 10}, 1, 1)"
        )
    return t


@pytest.mark.parametrize(
    "strategy",
    [
        {},
        {"strategy": "'sort'", "sort_order": "'name DESC NULLS LAST'"},
        {"strategy": "'sort'", "sort_order": "'zorder(id, name)'"},
        {"where": "'part = 1'"},
    ],
    ids=["binpack", "sort", "zorder", "where"],
)
def test_compaction_leaves_one_file_per_partition(engine: Engine, scattered: str, strategy: dict[str, str]) -> None:
    before = engine.sql(f"SELECT * FROM {scattered} ORDER BY id")
    done = call(
        engine,
        "rewrite_data_files",
        table=f"'{scattered}'",
        options="map('min-input-files', '2', 'partial-progress.enabled', 'true')",
        **strategy,
    )
    expected = (4, 1) if "where" in strategy else (8, 2)
    assert (done["rewritten_data_files_count"], done["added_data_files_count"]) == expected
    assert len(files(engine, scattered)) == (5 if "where" in strategy else 2)
    assert engine.sql(f"SELECT * FROM {scattered} ORDER BY id") == before
    if "DESC" in strategy.get("sort_order", ""):
        names = [row[0] for row in engine.sql(f"SELECT name FROM {scattered} WHERE part = 0")]
        assert names == sorted(names, reverse=True)


def test_manifests_are_rewritten(engine: Engine, scattered: str) -> None:
    before = engine.sql(f"SELECT * FROM {scattered} ORDER BY id")
    done = call(engine, "rewrite_manifests", table=f"'{scattered}'")
    assert (done["rewritten_manifests_count"], done["added_manifests_count"]) == (4, 1)
    assert engine.sql(f"SELECT * FROM {scattered} ORDER BY id") == before
    assert engine.sql(f"SELECT operation FROM {scattered}.snapshots ORDER BY committed_at DESC LIMIT 1") == [
        ("replace",)
    ]


def test_manifest_rewrite_keeps_row_ids(vended: Engine, namespace: str) -> None:
    """Iceberg 1.11.0 lost the row ids of files (apache/iceberg#16699)."""
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    for number in range(2):
        vended.sql(f"INSERT INTO {t} VALUES ({number})")
    assert call(vended, "rewrite_manifests", table=f"'{t}'")["added_manifests_count"] == 1
    assert vended.sql(f"SELECT id, _row_id FROM {t} ORDER BY id") == [(0, 0), (1, 1)]
    vended.sql(f"INSERT INTO {t} VALUES (2)")
    assert vended.value(f"SELECT count(*) FROM {t}") == 3


def test_expiration_deletes_files_of_snapshots(engine: Engine, s3: Any, scattered: str) -> None:
    call(engine, "rewrite_data_files", table=f"'{scattered}'", options="map('rewrite-all', 'true')")
    live = files(engine, scattered)
    prefix = prefix_of(engine, scattered)
    first = engine.value(f"SELECT snapshot_id FROM {scattered}.snapshots ORDER BY committed_at LIMIT 1")
    engine.sql(f"ALTER TABLE {scattered} CREATE TAG kept AS OF VERSION {first}")
    done = call(engine, "expire_snapshots", table=f"'{scattered}'", older_than=LONG_HENCE, retain_last="1")
    assert (done["deleted_data_files_count"], done["deleted_manifest_lists_count"]) == (6, 3)
    assert engine.value(f"SELECT count(*) FROM {scattered} VERSION AS OF 'kept'") == 10
    engine.sql(f"ALTER TABLE {scattered} DROP TAG kept")
    done = call(engine, "expire_snapshots", table=f"'{scattered}'", older_than=LONG_HENCE, stream_results="true")
    assert done["deleted_data_files_count"] == 2
    stored = {key for key in all_keys(s3, engine.lake.warehouse, prefix) if key.endswith(".parquet")}
    assert {f"s3://{engine.lake.warehouse}/{key}" for key in stored} == live
    assert engine.value(f"SELECT count(*) FROM {scattered}") == 40


def test_orphan_removal_deletes_only_orphans(engine: Engine, lake: Lake, s3: Any, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(5)")
    prefix = prefix_of(engine, t)
    known = set(all_keys(s3, lake.warehouse, prefix))
    orphans = {f"{prefix}data/lost-{number}.parquet" for number in range(3)}
    for key in orphans:
        s3.put_object(Bucket=lake.warehouse, Key=key, Body=b"lost")
    assert _orphans(engine, t) == []  # All of them are too young.
    found = _orphans(engine, t, older_than=_soon())
    assert {path.removeprefix(f"s3://{lake.warehouse}/") for path in found} == orphans
    assert set(all_keys(s3, lake.warehouse, prefix)) == known
    assert engine.value(f"SELECT count(*) FROM {t}") == 5


def _soon() -> int:
    """A time after all writes so far, in milliseconds."""
    return round((datetime.now(UTC) + timedelta(seconds=5)).timestamp() * 1000)


def _orphans(engine: Engine, table: str, older_than: int | None = None) -> list[str]:
    """Remove orphans with the action, because the procedure refuses files younger than a day."""
    java = engine.spark._jvm
    assert java is not None
    loaded = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(engine.spark._jsparkSession, table)
    action = java.org.apache.iceberg.spark.actions.SparkActions.get().deleteOrphanFiles(loaded).usePrefixListing(True)
    if older_than is not None:
        action = action.olderThan(older_than)
    return [str(path) for path in action.execute().orphanFileLocations()]


def test_procedure_removes_orphans_by_listing_prefixes(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(5)")
    procedure = f"CALL {engine.catalog}.system.remove_orphan_files"
    assert engine.sql(f"{procedure}(table => '{t}', prefix_listing => true)") == []
    with pytest.raises(Exception, match="less than 24 hours"):
        engine.sql(f"{procedure}(table => '{t}', prefix_listing => true, older_than => {LONG_HENCE})")


def test_position_deletes_are_rewritten_and_compacted(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(
        f"CREATE TABLE {t} (id BIGINT) USING iceberg"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read',"
        " 'write.delete.granularity' = 'partition')"
    )
    for number in range(3):
        engine.sql(f"INSERT INTO {t} SELECT id FROM range({number * 10}, {number * 10 + 10}, 1, 1)")
    for number in range(3):
        engine.sql(f"DELETE FROM {t} WHERE id = {number * 10 + 1}")
    left = [(id_,) for id_ in range(30) if id_ % 10 != 1]
    done = call(engine, "rewrite_position_delete_files", table=f"'{t}'", options="map('rewrite-all', 'true')")
    assert done["rewritten_delete_files_count"] == 3
    assert engine.sql(f"SELECT id FROM {t} ORDER BY id") == left
    call(
        engine,
        "rewrite_data_files",
        table=f"'{t}'",
        options="map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')",
    )
    assert files(engine, t, "delete_files") == set()
    assert engine.sql(f"SELECT id FROM {t} ORDER BY id") == left


def test_compaction_applies_deletion_vectors(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(
        f"CREATE TABLE {t} (id BIGINT) USING iceberg"
        " TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
    )
    engine.sql(f"INSERT INTO {t} SELECT id FROM range(0, 10, 1, 1)")
    engine.sql(f"DELETE FROM {t} WHERE id = 3")
    engine.sql(f"DELETE FROM {t} WHERE id = 4")
    assert len(files(engine, t, "delete_files")) == 1
    done = call(engine, "rewrite_data_files", table=f"'{t}'", options="map('delete-file-threshold', '1')")
    assert done["removed_delete_files_count"] == 1
    assert files(engine, t, "delete_files") == set()
    assert engine.value(f"SELECT count(*) FROM {t}") == 8


def test_statistics_are_computed_and_stored(vended: Engine, s3: Any, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} USING iceberg PARTITIONED BY (part) AS SELECT id, id % 2 AS part FROM range(100)")
    table_stats = call(vended, "compute_table_stats", table=f"'{t}'")["statistics_file"]
    partition_stats = call(vended, "compute_partition_stats", table=f"'{t}'")["partition_statistics_file"]
    newest = vended.value(f"SELECT file FROM {t}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
    bucket = vended.lake.warehouse
    metadata = json.loads(body_of(s3, bucket, newest.removeprefix(f"s3://{bucket}/")))
    (kept,) = metadata["statistics"]
    assert kept["statistics-path"] == table_stats
    assert kept["blob-metadata"][0]["properties"] == {"ndv": "100"}
    assert [one["statistics-path"] for one in metadata["partition-statistics"]] == [partition_stats]


def test_old_metadata_is_deleted_if_the_table_is_configured_so(vended: Engine, s3: Any, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(
        f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES"
        " ('write.metadata.delete-after-commit.enabled' = 'true', 'write.metadata.previous-versions-max' = '2')"
    )
    for number in range(5):
        vended.sql(f"INSERT INTO {t} VALUES ({number})")
    kept = [key for key in all_keys(s3, vended.lake.warehouse, prefix_of(vended, t)) if key.endswith("metadata.json")]
    assert len(kept) == 3
    assert vended.value(f"SELECT count(*) FROM {t}") == 5
