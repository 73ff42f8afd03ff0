"""Spark with server-side scan planning returns the same rows as with client-side planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.boto import root_keys
from tests.clients.iceberg.engine import SIGNED, SPARK_MARKS, STATIC, VENDED, AccessMode, Engine, answered, new_engine
from tests.clients.iceberg.lake import Lake
from tests.clients.users import User

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [*SPARK_MARKS, pytest.mark.heavy]

BY_THE_SERVER = {"scan-planning-mode": "server"}

FILTERS = (
    "true",
    "id < 10",
    "id = 17",
    "id IN (3, 30, 300)",
    "id NOT IN (3, 30)",
    "name = 'name-7'",
    "name LIKE 'name-1%'",
    "name NOT LIKE 'name-1%'",
    "name IS NULL",
    "name IS NOT NULL AND id >= 40",
    "NOT (id > 5 OR name IS NULL)",
    "day = DATE '2026-01-02'",
    "day > DATE '2026-01-03' AND at < TIMESTAMP '2026-01-01 04:00:00'",
    "at >= TIMESTAMP '2026-01-01 12:00:00' OR day = DATE '2026-01-01'",
    "amount BETWEEN 1.50 AND 3.25",
    "ratio > 0.5",
    "isnan(ratio)",
    "inner.a = 4 OR inner.b = 'b-5'",
    "flag",
    "NOT flag AND id % 7 = 0",
    "year(day) = 2026 AND month(day) = 1 AND id < 4",
    "id > 1000",
)


@pytest.fixture(params=[VENDED, SIGNED, STATIC], ids=lambda mode: mode.name)
def planned(request: pytest.FixtureRequest, spark: SparkSession, lake: Lake, engineer: User) -> Engine:
    """Spark with server-side scan planning, in each access mode."""
    mode: AccessMode = request.param
    return new_engine(
        spark, lake, mode, root_keys(lake.server) if mode.static_credentials else engineer.keys, BY_THE_SERVER
    )


@pytest.fixture(scope="module")
def space(lake: Lake, vended: Engine) -> str:
    """A namespace with an evolved table per format version, with deleted rows and nulls."""
    name = "planned_scans"
    vended.sql(f"CREATE NAMESPACE {vended.catalog}.{name}")
    for version in (2, 3):
        t = vended.table(name, f"v{version}")
        vended.sql(
            f"CREATE TABLE {t} (id BIGINT, name STRING, day DATE, at TIMESTAMP, amount DECIMAL(9, 2), ratio DOUBLE,"
            " inner STRUCT<a: INT, b: STRING>, flag BOOLEAN) USING iceberg PARTITIONED BY (day) TBLPROPERTIES"
            f" ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read',"
            " 'write.update.mode' = 'merge-on-read')"
        )
        vended.sql(_insert(t, 0, 25))
        vended.sql(f"ALTER TABLE {t} REPLACE PARTITION FIELD day WITH bucket(3, id)")
        vended.sql(f"ALTER TABLE {t} ADD PARTITION FIELD truncate(6, name)")
        vended.sql(_insert(t, 25, 50))
        vended.sql(f"DELETE FROM {t} WHERE id % 10 = 5")
        vended.sql(f"UPDATE {t} SET flag = NOT flag WHERE id IN (1, 41)")
    return name


def _insert(table: str, start: int, end: int) -> str:
    return (
        f"INSERT INTO {table} SELECT id, IF(id % 6 = 0, NULL, concat('name-', id)),"
        " date_add(DATE '2026-01-01', CAST(id % 5 AS INT)), TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, id),"
        " CAST(id / 8 AS DECIMAL(9, 2)), IF(id % 9 = 0, double('NaN'), id / 50), named_struct('a', CAST(id AS INT),"
        f" 'b', concat('b-', id)), id % 2 = 0 FROM range({start}, {end}, 1, 1)"
    )


@pytest.mark.parametrize("version", [2, 3])
def test_every_filter_returns_the_same_rows_with_either_planning(
    planned: Engine, vended: Engine, space: str, version: int
) -> None:
    before = answered(planned.lake.server, "planTableScan")
    for condition in FILTERS:
        query = f"SELECT id, name, flag FROM {{}} WHERE {condition} ORDER BY id"
        by_server = planned.sql(query.format(planned.table(space, f"v{version}")))
        by_client = vended.sql(query.format(vended.table(space, f"v{version}")))
        assert by_server == by_client, condition
    # Some queries need only table metadata, or share one plan.
    assert answered(planned.lake.server, "planTableScan") > before


def test_time_travel_branches_and_changes_are_planned(planned: Engine, namespace: str) -> None:
    t = planned.table(namespace)
    planned.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg")
    for number in range(3):
        planned.sql(f"INSERT INTO {t} VALUES ({number})")
    first, _, last = [row[0] for row in planned.sql(f"SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at")]
    planned.sql(f"ALTER TABLE {t} CREATE BRANCH dev AS OF VERSION {first}")
    planned.sql(f"INSERT INTO {t}.branch_dev VALUES (9)")
    assert planned.sql(f"SELECT id FROM {t} VERSION AS OF {first}") == [(0,)]
    assert planned.sql(f"SELECT id FROM {t} VERSION AS OF 'dev' ORDER BY id") == [(0,), (9,)]
    between = planned.spark.read.option("start-snapshot-id", first).option("end-snapshot-id", last).table(t)
    assert sorted(row.id for row in between.collect()) == [1, 2]


def test_row_changes_and_compaction_use_server_side_planning(planned: Engine, namespace: str) -> None:
    t = planned.table(namespace)
    planned.sql(
        f"CREATE TABLE {t} USING iceberg PARTITIONED BY (part) TBLPROPERTIES ('format-version' = '3',"
        " 'write.delete.mode' = 'merge-on-read') AS SELECT id, id % 2 AS part, 'old' AS state FROM range(8)"
    )
    planned.sql(f"DELETE FROM {t} WHERE id = 3")
    planned.sql(f"UPDATE {t} SET state = 'new' WHERE part = 0 AND id < 4")
    planned.sql(
        f"MERGE INTO {t} t USING (SELECT explode(array(7L, 70L)) AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (id, part, state) VALUES (s.id, 0, 'merged')"
    )
    rows = planned.sql(f"SELECT id, state FROM {t} ORDER BY id")
    assert rows == [(0, "new"), (1, "old"), (2, "new"), (4, "old"), (5, "old"), (6, "old"), (70, "merged")]
    lineage = planned.sql(f"SELECT id, _row_id FROM {t} ORDER BY id")
    planned.sql(
        f"CALL {planned.catalog}.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))"
    )
    assert planned.sql(f"SELECT id, state FROM {t} ORDER BY id") == rows
    assert planned.sql(f"SELECT id, _row_id FROM {t} ORDER BY id") == lineage


def test_large_plan_is_fetched_by_plan_tasks(planned: Engine, vended: Engine, large: str) -> None:
    before = answered(planned.lake.server, "fetchScanTasks")
    assert planned.sql(f"SELECT count(*), sum(id) FROM {planned.catalog}.{large} WHERE id >= 0") == [(70, 2415)]
    assert answered(planned.lake.server, "fetchScanTasks") > before


@pytest.fixture(scope="module")
def large(vended: Engine, space: str) -> str:
    """A table with more manifests than one response plans."""
    t = vended.table(space, "large")
    vended.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('commit.manifest-merge.enabled' = 'false')")
    for number in range(70):
        vended.sql(f"INSERT INTO {t} VALUES ({number})")
    return f"{space}.large"
