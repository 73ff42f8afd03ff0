"""Spark and snapshots: time travel, tags, branches, staged snapshots, rollback."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from tests.clients.iceberg.engine import SPARK_MARKS, Engine

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]


def create_history(engine: Engine, namespace: str) -> str:
    """Create a table with three snapshots, each with one more row."""
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    for number in (1, 2, 3):
        engine.sql(f"INSERT INTO {t} VALUES ({number})")
    return t


@pytest.fixture
def table(vended: Engine, namespace: str) -> str:
    return create_history(vended, namespace)


def snapshots(engine: Engine, table: str) -> list[int]:
    """A table's snapshots, oldest first."""
    return [row[0] for row in engine.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at")]


def ids(engine: Engine, source: str) -> list[int]:
    return [row[0] for row in engine.sql(f"SELECT id FROM {source} ORDER BY id")]


def call(engine: Engine, procedure: str, *arguments: object) -> list[tuple[object, ...]]:
    written = ", ".join(f"'{one}'" if isinstance(one, str) else str(one) for one in arguments)
    return engine.sql(f"CALL {engine.catalog}.system.{procedure}({written})")


# -- time travel -----------------------------------------------------------------------------------------------------


def test_time_travel_reads_earlier_snapshots(engine: Engine, namespace: str) -> None:
    t = create_history(engine, namespace)
    first, second, _ = snapshots(engine, t)
    assert ids(engine, f"{t} VERSION AS OF {first}") == [1]
    assert ids(engine, f"{t}.snapshot_id_{second}") == [1, 2]
    moments = engine.sql(f"SELECT CAST(committed_at AS STRING) FROM {t}.snapshots ORDER BY committed_at")
    assert ids(engine, f"{t} TIMESTAMP AS OF '{moments[1][0]}'") == [1, 2]
    with pytest.raises(Exception, match="Cannot find a snapshot older than"):
        ids(engine, f"{t} TIMESTAMP AS OF '2000-01-01'")
    with pytest.raises(Exception, match="Cannot find"):
        ids(engine, f"{t} VERSION AS OF 1")


def test_incremental_read_between_two_snapshots(vended: Engine, table: str) -> None:
    first, _, third = snapshots(vended, table)
    between = vended.spark.read.option("start-snapshot-id", first).option("end-snapshot-id", third).table(table)
    assert sorted(row.id for row in between.collect()) == [2, 3]


def test_old_snapshot_is_read_with_its_schema(vended: Engine, table: str) -> None:
    before = snapshots(vended, table)[-1]
    vended.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    vended.sql(f"INSERT INTO {table} VALUES (4, 'x')")
    assert vended.spark.sql(f"SELECT * FROM {table} VERSION AS OF {before}").columns == ["id"]
    assert vended.spark.table(table).columns == ["id", "note"]


def test_table_is_rolled_back_and_forward(vended: Engine, table: str) -> None:
    first, second, third = snapshots(vended, table)
    assert call(vended, "rollback_to_snapshot", table, first) == [(third, first)]
    assert ids(vended, table) == [1]
    with pytest.raises(Py4JJavaError, match="not an ancestor"):
        call(vended, "rollback_to_snapshot", table, third)
    call(vended, "set_current_snapshot", table, third)
    moment = vended.value(f"SELECT CAST(committed_at AS STRING) FROM {table}.snapshots WHERE snapshot_id = {third}")
    vended.sql(f"CALL {vended.catalog}.system.rollback_to_timestamp('{table}', TIMESTAMP '{moment}')")
    assert ids(vended, table) == [1, 2]
    vended.sql(f"INSERT INTO {table} VALUES (9)")
    assert ids(vended, table) == [1, 2, 9]
    ancestors = call(vended, "ancestors_of", table)
    assert [row[0] for row in ancestors[1:]] == [second, first]


def test_every_metadata_table_is_readable(vended: Engine, table: str) -> None:
    counts = {
        name: vended.value(f"SELECT count(*) FROM {table}.{name}")
        for name in (
            "history",
            "metadata_log_entries",
            "snapshots",
            "entries",
            "files",
            "data_files",
            "delete_files",
            "manifests",
            "partitions",
            "position_deletes",
            "all_data_files",
            "all_delete_files",
            "all_files",
            "all_entries",
            "all_manifests",
            "refs",
        )
    }
    assert counts == {
        "history": 3,
        "metadata_log_entries": 4,
        "snapshots": 3,
        "entries": 3,
        "files": 3,
        "data_files": 3,
        "delete_files": 0,
        "manifests": 3,
        "partitions": 1,
        "position_deletes": 0,
        "all_data_files": 3,
        "all_delete_files": 0,
        "all_files": 3,
        "all_entries": 3,
        "all_manifests": 6,
        "refs": 1,
    }


def test_changelog_is_readable(vended: Engine, table: str) -> None:
    vended.sql(f"DELETE FROM {table} WHERE id = 1")
    view = vended.value(f"CALL {vended.catalog}.system.create_changelog_view(table => '{table}')")
    changes = vended.sql(f"SELECT id, _change_type FROM {view} ORDER BY _change_ordinal")
    vended.sql(f"DROP VIEW {view}")
    assert changes == [(1, "INSERT"), (2, "INSERT"), (3, "INSERT"), (1, "DELETE")]


# -- branches and tags -----------------------------------------------------------------------------------------------


def test_tags_keep_their_snapshot(vended: Engine, table: str) -> None:
    first, second, _ = snapshots(vended, table)
    vended.sql(f"ALTER TABLE {table} CREATE TAG release AS OF VERSION {first} RETAIN 7 DAYS")
    vended.sql(f"INSERT INTO {table} VALUES (4)")
    assert ids(vended, f"{table} VERSION AS OF 'release'") == [1]
    assert ids(vended, f"{table}.tag_release") == [1]
    vended.sql(f"ALTER TABLE {table} REPLACE TAG release AS OF VERSION {second} RETAIN 8 DAYS")
    reference = f"SELECT type, snapshot_id, max_reference_age_in_ms FROM {table}.refs WHERE name = 'release'"
    assert vended.sql(reference) == [("TAG", second, 8 * 86_400_000)]
    vended.sql(f"ALTER TABLE {table} DROP TAG release")
    vended.sql(f"ALTER TABLE {table} DROP TAG IF EXISTS release")
    assert vended.sql(reference) == []


def test_branch_is_written_and_fast_forwarded(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT id FROM range(3)")
    engine.sql(f"ALTER TABLE {t} CREATE BRANCH dev RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS")
    branch = f"{t}.branch_dev"
    engine.sql(f"INSERT INTO {branch} VALUES (10)")
    engine.sql(f"DELETE FROM {branch} WHERE id = 0")
    engine.sql(f"UPDATE {branch} SET id = 11 WHERE id = 10")
    engine.sql(f"MERGE INTO {branch} t USING (SELECT 12L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    assert ids(engine, t) == [0, 1, 2]
    assert ids(engine, branch) == ids(engine, f"{t} VERSION AS OF 'dev'") == [1, 2, 11, 12]
    engine.sql(f"INSERT INTO {t} VALUES (5)")
    with pytest.raises(IllegalArgumentException, match="main is not an ancestor of dev"):
        call(engine, "fast_forward", t, "main", "dev")
    engine.sql(f"ALTER TABLE {t} CREATE OR REPLACE BRANCH dev")
    assert ids(engine, branch) == [0, 1, 2, 5]
    engine.sql(f"INSERT OVERWRITE {branch} VALUES (7)")
    call(engine, "fast_forward", t, "main", "dev")
    assert ids(engine, t) == [7]
    engine.sql(f"ALTER TABLE {t} DROP BRANCH dev")
    assert engine.sql(f"SELECT name FROM {t}.refs") == [("main",)]


def test_snapshot_of_another_branch_is_cherry_picked(vended: Engine, table: str) -> None:
    vended.sql(f"ALTER TABLE {table} CREATE BRANCH dev")
    vended.sql(f"INSERT INTO {table}.branch_dev VALUES (10)")
    picked = vended.value(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'dev'")
    vended.sql(f"INSERT INTO {table} VALUES (4)")
    call(vended, "cherrypick_snapshot", table, picked)
    assert ids(vended, table) == [1, 2, 3, 4, 10]


def test_written_rows_are_audited_before_they_are_published(vended: Engine, table: str) -> None:
    vended.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    vended.spark.conf.set("spark.wap.id", "night-1")
    try:
        vended.sql(f"INSERT INTO {table} VALUES (4)")
    finally:
        vended.spark.conf.unset("spark.wap.id")
    assert ids(vended, table) == [1, 2, 3]
    call(vended, "publish_changes", table, "night-1")
    assert ids(vended, table) == [1, 2, 3, 4]
    vended.sql(f"ALTER TABLE {table} CREATE BRANCH audit")
    vended.spark.conf.set("spark.wap.branch", "audit")
    try:
        vended.sql(f"INSERT INTO {table} VALUES (5)")
        assert ids(vended, table) == [1, 2, 3, 4, 5]
    finally:
        vended.spark.conf.unset("spark.wap.branch")
    assert ids(vended, table) == [1, 2, 3, 4]
    call(vended, "fast_forward", table, "main", "audit")
    assert ids(vended, table) == [1, 2, 3, 4, 5]
