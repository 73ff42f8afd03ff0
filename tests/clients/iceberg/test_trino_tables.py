"""Trino DDL on the catalog: tables, columns, partitions, CREATE TABLE AS SELECT."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoUserError

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ids_of
from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS


def columns(trino: TrinoCatalog, table: str) -> list[tuple[str, str]]:
    """A table's columns and their types."""
    return [(row[0], row[1]) for row in trino.sql(f"DESCRIBE {table}")]


# -- definitions -----------------------------------------------------------------------------------------------------


def test_every_type_and_transform_round_trips(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    t = trino.table(namespace)
    defined = [
        ("id", "bigint"),
        ("b", "boolean"),
        ("i", "integer"),
        ("r", "real"),
        ("d", "double"),
        ("n", "decimal(20,4)"),
        ("s", "varchar"),
        ("bin", "varbinary"),
        ("u", "uuid"),
        ("day", "date"),
        ("clock", "time(6)"),
        ("at", "timestamp(6) with time zone"),
        ("here", "timestamp(6)"),
        ("xs", "array(integer)"),
        ("m", "map(varchar, bigint)"),
        ("deep", "row(a integer, b row(c varchar))"),
    ]
    listed = ", ".join(f"{name} {kind}" for name, kind in defined)
    transforms = ["bucket(id, 4)", "truncate(s, 3)", "year(day)", "hour(here)", "b"]
    written = ", ".join(f"'{transform}'" for transform in transforms)
    trino.sql(
        f"CREATE TABLE {t} ({listed}) COMMENT 'everything'"
        f" WITH (partitioning = ARRAY[{written}], sorted_by = ARRAY['day DESC NULLS LAST', 'id'])"
    )
    assert columns(trino, t) == defined
    made = catalog.load_table((namespace, "t"))
    assert [str(field.transform) for field in made.spec().fields] == [
        "bucket[4]",
        "truncate[3]",
        "year",
        "hour",
        "identity",
    ]
    assert [str(field.direction) for field in made.sort_order().fields] == ["DESC", "ASC"]
    assert made.properties["comment"] == "everything"
    values = (
        "1, true, 2, REAL '0.5', 0.25e0, DECIMAL '1.5', 'text', X'00FF', UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59',"
        " DATE '2026-02-03', TIME '01:02:03.000004', TIMESTAMP '2026-02-03 04:05:06.000007 +01:00',"
        " TIMESTAMP '2026-02-03 04:05:06', ARRAY[1, NULL], MAP(ARRAY['k'], ARRAY[BIGINT '7']), ROW(1, ROW('c'))"
    )
    trino.sql(f"INSERT INTO {t} VALUES ({values})")
    assert trino.sql(f"SELECT * FROM {t}") == trino.sql(f"SELECT * FROM (VALUES ({values}))")
    trino.sql(f"INSERT INTO {t} (id) VALUES (NULL)")
    assert trino.sql(f"SELECT count(*), count(id), count(deep) FROM {t}") == [(2, 1, 1)]
    assert trino.value(f"SELECT n FROM {t} WHERE s = 'text' AND here < TIMESTAMP '2026-02-04 00:00:00'") == 1.5


def test_columns_are_added_renamed_widened_and_dropped(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str
) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id INTEGER NOT NULL, name VARCHAR, gone INTEGER, deep ROW(a INTEGER))")
    trino.sql(f"INSERT INTO {t} VALUES (1, 'one', 0, ROW(1))")
    for change in (
        "ADD COLUMN note VARCHAR COMMENT 'a note'",
        "ADD COLUMN deep.b BIGINT",
        "RENAME COLUMN name TO title",
        "RENAME COLUMN deep.a TO first",
        "ALTER COLUMN id SET DATA TYPE BIGINT",
        "ALTER COLUMN id DROP NOT NULL",
        "DROP COLUMN gone",
    ):
        trino.sql(f"ALTER TABLE {t} {change}")
    trino.sql(f"INSERT INTO {t} VALUES (5000000000, 'two', ROW(2, 3), 'x'), (NULL, NULL, NULL, NULL)")
    assert columns(trino, t) == [
        ("id", "bigint"),
        ("title", "varchar"),
        ("deep", "row(first integer, b bigint)"),
        ("note", "varchar"),
    ]
    assert trino.sql(f"SELECT id, title, deep.first, deep.b, note FROM {t} ORDER BY id") == [
        (1, "one", 1, None, None),
        (5_000_000_000, "two", 2, 3, "x"),
        (None, None, None, None, None),
    ]
    assert catalog.load_table((namespace, "t")).schema().find_field("note").doc == "a note"
    with pytest.raises(TrinoUserError, match="already exists"):
        trino.sql(f"ALTER TABLE {t} ADD COLUMN title VARCHAR")


def test_partition_spec_evolves(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    t, files = trino.table(namespace), trino.table(namespace, "t$files")
    trino.sql(f"CREATE TABLE {t} (id BIGINT, day DATE) WITH (partitioning = ARRAY['year(day)'])")
    trino.sql(f"INSERT INTO {t} VALUES (1, DATE '2026-01-01'), (2, DATE '2026-06-01')")
    trino.sql(f"ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['month(day)', 'bucket(id, 2)']")
    trino.sql(f"INSERT INTO {t} VALUES (3, DATE '2026-01-01'), (4, DATE '2026-06-01')")
    trino.sql(f"ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY[]")
    trino.sql(f"INSERT INTO {t} VALUES (5, DATE '2026-01-01'), (6, DATE '2026-06-01')")
    assert trino.sql(f"SELECT spec_id, sum(record_count) FROM {files} GROUP BY spec_id ORDER BY spec_id") == [
        (0, 2),
        (1, 2),
        (2, 2),
    ]
    assert trino.column(f"SELECT id FROM {t} WHERE day < DATE '2026-02-01' ORDER BY id") == [1, 3, 5]
    trino.sql(f"DELETE FROM {t} WHERE day >= DATE '2026-02-01'")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3, 5]


def test_properties_and_comments_are_set(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT) WITH (format = 'ORC', format_version = 1)")
    assert catalog.load_table((namespace, "t")).format_version == 1
    trino.sql(f"ALTER TABLE {t} SET PROPERTIES format_version = 2, format = 'PARQUET'")
    trino.sql(f"COMMENT ON TABLE {t} IS 'noted'")
    trino.sql(f"COMMENT ON COLUMN {t}.id IS 'numbered'")
    changed = catalog.load_table((namespace, "t"))
    assert changed.format_version == 2
    assert changed.schema().find_field("id").doc == "numbered"
    shown = dict(trino.sql(f"SELECT * FROM {trino.table(namespace, 't$properties')}"))
    assert shown["write.format.default"] == "PARQUET"
    assert "COMMENT 'noted'" in trino.value(f"SHOW CREATE TABLE {t}")


# -- tables of queries -----------------------------------------------------------------------------------------------


def test_tables_are_created_and_replaced_by_queries(
    each_trino: TrinoCatalog, catalog: RestCatalog, namespace: str
) -> None:
    trino, t = each_trino, each_trino.table(namespace)
    rows = "SELECT id, id % 2 AS part FROM UNNEST(sequence(0, 5)) AS s (id)"
    trino.sql(f"CREATE TABLE {trino.table(namespace, 'divided')} WITH (partitioning = ARRAY['part']) AS {rows}")
    assert trino.value(f"SELECT count(*) FROM {trino.table(namespace, 'divided$partitions')}") == 2
    trino.sql(f"CREATE TABLE {t} AS {rows}")
    first = trino.value(f"SELECT snapshot_id FROM {trino.table(namespace, 't$snapshots')}")
    # The query reads the table that it replaces.
    trino.sql(f"CREATE OR REPLACE TABLE {t} AS SELECT id FROM {t} WHERE part = 1")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3, 5]
    assert trino.value(f"SELECT count(*) FROM {t} FOR VERSION AS OF {first}") == 6
    trino.sql(f"CREATE OR REPLACE TABLE {t} (name VARCHAR)")
    assert columns(trino, t) == [("name", "varchar")]
    trino.sql(f"CREATE TABLE IF NOT EXISTS {t} AS SELECT 1 AS other")
    assert columns(trino, t) == [("name", "varchar")]
    with pytest.raises(TrinoUserError, match="already exists"):
        trino.sql(f"CREATE TABLE {t} AS SELECT 1 AS other")


def test_failed_create_table_as_select_leaves_no_table(trino: TrinoCatalog, lake: Lake, namespace: str) -> None:
    t, place = trino.table(namespace), f"s3://{lake.warehouse}/places/{namespace}"
    with pytest.raises(TrinoUserError, match="Division by zero"):
        trino.sql(
            f"CREATE TABLE {t} WITH (location = '{place}') AS SELECT 1 / (id - 1) AS x FROM UNNEST(ARRAY[1]) s (id)"
        )
    assert trino.sql(f"SHOW TABLES FROM {trino.schema(namespace)}") == []
