"""Spark DDL on the catalog: namespaces, tables, columns, partitions, sort orders, names."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from tests.clients.boto import all_keys
from tests.clients.iceberg.engine import SPARK_MARKS, Engine
from tests.clients.iceberg.lake import Lake

pytestmark = SPARK_MARKS


def columns(engine: Engine, table: str) -> list[tuple[str, str]]:
    """A table's columns and their types."""
    return [(field.name, field.dataType.simpleString()) for field in engine.spark.table(table).schema]


def properties(engine: Engine, table: str) -> dict[str, str]:
    return dict(engine.sql(f"SHOW TBLPROPERTIES {table}"))


def partitioning(engine: Engine, table: str) -> list[str]:
    """The transforms of a table's current partition spec."""
    shown = engine.sql(f"DESCRIBE EXTENDED {table}")
    return [row[1] for row in shown if row[0].startswith("Part ")]


# -- namespaces ------------------------------------------------------------------------------------------------------


def test_nested_namespaces_are_created_described_listed_and_dropped(vended: Engine, namespace: str) -> None:
    outer, inner = f"{vended.catalog}.{namespace}", f"{vended.catalog}.{namespace}.a.b"
    vended.sql(f"CREATE NAMESPACE {inner} COMMENT 'deep' WITH PROPERTIES ('team' = 'data')")
    assert vended.sql(f"SHOW NAMESPACES IN {outer}") == [(f"{namespace}.a",)]
    assert vended.sql(f"SHOW NAMESPACES IN {outer}.a") == [(f"{namespace}.a.b",)]
    vended.sql(f"ALTER NAMESPACE {inner} SET PROPERTIES ('tier' = 'gold')")
    vended.sql(f"ALTER NAMESPACE {inner} UNSET PROPERTIES ('team')")
    described = dict(vended.sql(f"DESCRIBE NAMESPACE EXTENDED {inner}"))
    assert (described["Comment"], described["Properties"]) == ("deep", "((tier,gold))")
    vended.sql(f"CREATE TABLE {inner}.t (id BIGINT) USING iceberg")
    vended.sql(f"INSERT INTO {inner}.t VALUES (1)")
    assert vended.sql(f"SELECT * FROM {inner}.t") == [(1,)]
    with pytest.raises(Py4JJavaError, match="NamespaceNotEmpty"):
        vended.sql(f"DROP NAMESPACE {inner}")
    vended.sql(f"DROP TABLE {inner}.t")
    vended.sql(f"DROP NAMESPACE {inner}")
    vended.sql(f"DROP NAMESPACE {outer}.a")
    assert vended.sql(f"SHOW NAMESPACES IN {outer}") == []


# -- definitions -----------------------------------------------------------------------------------------------------


def test_every_type_and_transform_round_trips(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(
        f"CREATE TABLE {t} (id BIGINT NOT NULL COMMENT 'key', b BOOLEAN, i INT, f FLOAT, d DOUBLE, n DECIMAL(20, 4),"
        " s STRING, bin BINARY, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, xs ARRAY<INT>, m MAP<STRING, BIGINT>,"
        " inner STRUCT<a: INT, b: STRUCT<c: STRING>>) USING iceberg"
        " PARTITIONED BY (bucket(4, id), truncate(3, s), years(day), hours(at), b) COMMENT 'everything'"
    )
    assert columns(vended, t)[-1] == ("inner", "struct<a:int,b:struct<c:string>>")
    assert partitioning(vended, t) == ["bucket(4, id)", "truncate(3, s)", "years(day)", "hours(at)", "b"]
    row = (
        "SELECT 1L, true, 2, CAST(0.5 AS FLOAT), 2.5D, CAST(1.0625 AS DECIMAL(20, 4)), 'hällo', X'00FF',"
        " DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.678', TIMESTAMP_NTZ '2026-01-02 03:04:05', array(1, 2),"
        " map('a', 1L), named_struct('a', 1, 'b', named_struct('c', 'x'))"
    )
    vended.sql(f"INSERT INTO {t} {row}")
    assert vended.sql(f"SELECT * FROM {t}") == vended.sql(row)


def test_columns_are_added_renamed_widened_moved_and_dropped(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id INT, name STRING, point STRUCT<x: INT>) USING iceberg")
    engine.sql(f"INSERT INTO {t} VALUES (1, 'a', named_struct('x', 7))")
    for change in (
        "ADD COLUMN (note STRING COMMENT 'free', point.y DOUBLE)",
        "RENAME COLUMN name TO label",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN note FIRST",
        "RENAME COLUMN point.x TO abscissa",
    ):
        engine.sql(f"ALTER TABLE {t} {change}")
    engine.sql(f"INSERT INTO {t} VALUES ('n', 3000000000, 'b', named_struct('abscissa', 8, 'y', 0.5D))")
    assert columns(engine, t) == [
        ("note", "string"),
        ("id", "bigint"),
        ("label", "string"),
        ("point", "struct<abscissa:int,y:double>"),
    ]
    engine.sql(f"ALTER TABLE {t} DROP COLUMN note")
    engine.sql(f"ALTER TABLE {t} ADD COLUMN note STRING")
    rows = engine.sql(f"SELECT id, label, point.abscissa, point.y, note FROM {t} ORDER BY id")
    # A column with a previously used name is a new column.
    assert rows == [(1, "a", 7, None, None), (3_000_000_000, "b", 8, 0.5, None)]


def test_partitions_evolve_and_old_files_stay_readable(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} (id BIGINT, at TIMESTAMP) USING iceberg PARTITIONED BY (days(at))")
    engine.sql(f"INSERT INTO {t} VALUES (1, TIMESTAMP '2026-01-01 00:00:00'), (2, TIMESTAMP '2026-02-02 00:00:00')")
    engine.sql(f"ALTER TABLE {t} REPLACE PARTITION FIELD days(at) WITH months(at)")
    engine.sql(f"ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id) AS shard")
    engine.sql(f"INSERT INTO {t} VALUES (3, TIMESTAMP '2026-01-03 00:00:00')")
    engine.sql(f"ALTER TABLE {t} DROP PARTITION FIELD shard")
    engine.sql(f"INSERT INTO {t} VALUES (4, TIMESTAMP '2026-03-04 00:00:00')")
    assert partitioning(engine, t) == ["months(at)"]
    assert [row[0] for row in engine.sql(f"SELECT spec_id FROM {t}.files ORDER BY spec_id")] == [0, 0, 1, 2]
    assert engine.sql(f"SELECT id FROM {t} WHERE at < '2026-02-01' ORDER BY id") == [(1,), (3,)]
    engine.sql(f"DELETE FROM {t} WHERE at >= '2026-02-01'")
    assert engine.sql(f"SELECT id FROM {t} ORDER BY id") == [(1,), (3,)]


def test_sort_order_distribution_and_identifier_fields_are_stored(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} (id BIGINT NOT NULL, part STRING) USING iceberg PARTITIONED BY (part)")
    vended.sql(f"ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id DESC NULLS LAST")
    vended.sql(f"ALTER TABLE {t} SET IDENTIFIER FIELDS id")
    shown = properties(vended, t)
    assert (shown["write.distribution-mode"], shown["sort-order"]) == ("hash", "id DESC NULLS LAST")
    assert shown["identifier-fields"] == "[id]"
    vended.sql(f"INSERT INTO {t} SELECT id, 'p' FROM range(20)")
    assert [row[0] for row in vended.sql(f"SELECT id FROM {t}")] == list(range(19, -1, -1))
    assert vended.sql(f"SELECT sort_order_id FROM {t}.files") == [(1,)]
    vended.sql(f"ALTER TABLE {t} WRITE UNORDERED")
    vended.sql(f"ALTER TABLE {t} DROP IDENTIFIER FIELDS id")
    assert properties(vended, t).keys().isdisjoint({"sort-order", "identifier-fields"})


def test_properties_and_comments_are_set_and_unset(vended: Engine, namespace: str) -> None:
    t = vended.table(namespace)
    vended.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('a' = '1', 'b' = '2')")
    vended.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('a' = '3', 'format-version' = '3')")
    vended.sql(f"ALTER TABLE {t} UNSET TBLPROPERTIES ('b')")
    shown = properties(vended, t)
    assert (shown["a"], shown["format-version"], "b" in shown) == ("3", "3", False)


# -- tables of queries -----------------------------------------------------------------------------------------------


def test_tables_are_created_and_replaced_by_queries(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    engine.sql(f"CREATE TABLE {t} USING iceberg PARTITIONED BY (part) AS SELECT id, id % 2 AS part FROM range(6)")
    assert engine.value(f"SELECT count(*) FROM {t}.partitions") == 2
    # The query reads the table that it replaces.
    engine.sql(f"REPLACE TABLE {t} USING iceberg PARTITIONED BY (truncate(2, id)) AS SELECT id FROM {t} WHERE part = 1")
    assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == [(1,), (3,), (5,)]
    engine.sql(f"CREATE OR REPLACE TABLE {t} USING iceberg TBLPROPERTIES ('a' = 'b') AS SELECT 'x' AS id")
    assert engine.sql(f"SELECT * FROM {t}") == [("x",)]
    assert properties(engine, t)["a"] == "b"
    # Earlier snapshots stay readable, and the table keeps its identity.
    first = engine.value(f"SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at LIMIT 1")
    assert engine.value(f"SELECT count(*) FROM {t} VERSION AS OF {first}") == 6
    other = engine.table(namespace, "other")
    engine.sql(f"CREATE OR REPLACE TABLE {other} USING iceberg AS SELECT 1 AS id")
    engine.sql(f"CREATE TABLE IF NOT EXISTS {other} USING iceberg AS SELECT 2 AS id")
    assert engine.sql(f"SELECT * FROM {other}") == [(1,)]


def test_failed_create_table_as_select_leaves_no_table(engine: Engine, namespace: str) -> None:
    t = engine.table(namespace)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        engine.sql(f"CREATE TABLE {t} USING iceberg AS SELECT 1 / (id - 1) AS x FROM range(3)")
    assert engine.sql(f"SHOW TABLES IN {engine.catalog}.{namespace}") == []


def test_table_with_a_location_writes_where_its_properties_say(
    engine: Engine, lake: Lake, s3: Any, namespace: str
) -> None:
    t, place = engine.table(namespace), f"s3://{lake.warehouse}/places/{namespace}-{engine.catalog}"
    engine.sql(
        f"CREATE TABLE {t} USING iceberg LOCATION '{place}/t' TBLPROPERTIES ('write.data.path' = '{place}/data')"
        " AS SELECT id FROM range(3)"
    )
    engine.sql(f"DELETE FROM {t} WHERE id = 1")
    assert engine.sql(f"SELECT * FROM {t} ORDER BY id") == [(0,), (2,)]
    prefix = place.removeprefix(f"s3://{lake.warehouse}/")
    assert {key.removeprefix(prefix).split("/")[1] for key in all_keys(s3, lake.warehouse, prefix)} == {"t", "data"}


# -- names -----------------------------------------------------------------------------------------------------------


def test_renamed_table_keeps_its_rows_and_frees_its_name(vended: Engine, namespace: str) -> None:
    t, to = vended.table(namespace), f"{namespace}.a.renamed"
    vended.sql(f"CREATE NAMESPACE {vended.catalog}.{namespace}.a")
    vended.sql(f"CREATE TABLE {t} USING iceberg AS SELECT 1 AS id")
    vended.sql(f"ALTER TABLE {t} RENAME TO {to}")
    vended.sql(f"CREATE TABLE {t} USING iceberg AS SELECT 2 AS id")
    vended.sql(f"INSERT INTO {vended.catalog}.{to} VALUES (3)")
    assert vended.sql(f"SELECT id FROM {vended.catalog}.{to} ORDER BY id") == [(1,), (3,)]
    assert vended.sql(f"SELECT id FROM {t}") == [(2,)]


def test_absent_tables_are_reported(vended: Engine, namespace: str) -> None:
    for statement in (
        f"SELECT * FROM {vended.table(namespace, 'none')}",
        f"SELECT * FROM {vended.catalog}.none.none",
        f"SELECT * FROM {vended.catalog}.none.none.snapshots",
        f"DROP TABLE {vended.table(namespace, 'none')}",
        f"INSERT INTO {vended.table(namespace, 'none')} VALUES (1)",
    ):
        with pytest.raises(AnalysisException) as caught:
            vended.sql(statement)
        assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    vended.sql(f"DROP TABLE IF EXISTS {vended.table(namespace, 'none')}")


def test_dropped_table_leaves_its_files_and_purged_table_leaves_none(
    engine: Engine, lake: Lake, s3: Any, namespace: str
) -> None:
    for name, purge in (("kept", ""), ("purged", "PURGE")):
        t, place = engine.table(namespace, name), f"drops/{namespace}-{engine.catalog}/{name}"
        engine.sql(f"CREATE TABLE {t} (id BIGINT) USING iceberg LOCATION 's3://{lake.warehouse}/{place}'")
        engine.sql(f"INSERT INTO {t} VALUES (1)")
        engine.sql(f"INSERT INTO {t} VALUES (2)")
        engine.sql(f"DROP TABLE {t} {purge}")
        assert engine.sql(f"SHOW TABLES IN {engine.catalog}.{namespace}") == []
        assert len(all_keys(s3, lake.warehouse, f"{place}/")) == (0 if purge else 9)
