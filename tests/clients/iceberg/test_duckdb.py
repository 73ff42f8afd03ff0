"""DuckDB on the catalog: schemas, tables and rows through SQL, checked with PyIceberg."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.boto import all_keys
from tests.clients.iceberg.duck import Duck, duckdb_on
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ids_of, rows_of

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def duck(lake: Lake) -> Iterator[Duck]:
    """DuckDB as root; a dot in a schema name separates levels."""
    with duckdb_on(lake, options=", SUPPORT_NESTED_NAMESPACES true") as duck:
        yield duck


@pytest.fixture
def people(duck: Duck, namespace: str) -> str:
    """A table with the rows 1, 2 and 3."""
    name = f"lake.{namespace}.people"
    duck(f"CREATE TABLE {name} (id BIGINT, name VARCHAR, day DATE)")
    duck(f"INSERT INTO {name} VALUES (1, 'a', '2026-01-01'), (2, 'b', '2026-01-02'), (3, 'c', '2026-01-03')")
    return name


def test_schemas_are_namespaces(duck: Duck, catalog: RestCatalog) -> None:
    name = f"ns_{uuid.uuid4().hex[:16]}"
    duck(f"CREATE SCHEMA lake.{name}")
    duck(f'CREATE SCHEMA lake."{name}.Ünï"')
    assert catalog.list_namespaces(name) == [(name, "Ünï")]
    duck(f"CALL set_iceberg_schema_properties(lake.{name}, {{'owner': 'duck'}})")
    assert catalog.load_namespace_properties(name)["owner"] == "duck"
    assert ("owner", "duck") in duck(f"FROM iceberg_schema_properties(lake.{name})")
    found = duck("SELECT schema_name FROM information_schema.schemata WHERE catalog_name = 'lake'")
    assert {name, f"{name}.Ünï"} <= {row[0] for row in found}
    with pytest.raises(duckdb.Error, match="NamespaceNotEmpty"):
        duck(f"DROP SCHEMA lake.{name}")
    duck(f'DROP SCHEMA lake."{name}.Ünï"')
    duck(f"DROP SCHEMA lake.{name}")
    assert not catalog.namespace_exists(name)


def test_rows_are_inserted_and_read(duck: Duck, catalog: RestCatalog, namespace: str, people: str) -> None:
    assert duck(f"SELECT * FROM {people} WHERE id > 1 ORDER BY id") == [
        (2, "b", date(2026, 1, 2)),
        (3, "c", date(2026, 1, 3)),
    ]
    assert ids_of(catalog.load_table((namespace, "people"))) == [1, 2, 3]
    duck(f"CREATE TABLE lake.{namespace}.copy AS SELECT id * 10 AS id FROM {people}")
    assert ids_of(catalog.load_table((namespace, "copy"))) == [10, 20, 30]


def test_rows_are_updated_deleted_and_merged(duck: Duck, catalog: RestCatalog, namespace: str, people: str) -> None:
    """Format version 2 has position delete files."""
    assert duck(f"UPDATE {people} SET name = 'changed' WHERE id = 1") == [(1,)]
    assert duck(f"DELETE FROM {people} WHERE id = 2") == [(1,)]
    source = "SELECT 3 AS id, 'merged' AS name, DATE '2026-02-02' AS day UNION ALL SELECT 4, 'new', DATE '2026-03-03'"
    duck(
        f"MERGE INTO {people} AS t USING ({source}) AS s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.day)"
    )
    expected = [
        (1, "changed", date(2026, 1, 1)),
        (3, "merged", date(2026, 1, 3)),
        (4, "new", date(2026, 3, 3)),
    ]
    assert duck(f"SELECT * FROM {people} ORDER BY id") == expected
    table = catalog.load_table((namespace, "people"))
    assert table.format_version == 2
    assert table.inspect.delete_files().num_rows > 0
    assert [tuple(row.values()) for row in rows_of(table)] == expected


def test_changed_rows_of_format_version_3_keep_their_ids(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    """Format version 3 has deletion vectors and row ids."""
    name = f"lake.{namespace}.third"
    duck(f"CREATE TABLE {name} (id BIGINT, name VARCHAR) WITH ('format-version' = '3')")
    duck(f"INSERT INTO {name} SELECT range, 'v' || range FROM range(100)")
    duck(f"DELETE FROM {name} WHERE id % 2 = 0")
    duck(f"DELETE FROM {name} WHERE id < 90")
    duck(f"UPDATE {name} SET name = 'changed' WHERE id = 95")
    duck(f"INSERT INTO {name} VALUES (100, 'new')")
    expected = [(91, "v91"), (93, "v93"), (95, "changed"), (97, "v97"), (99, "v99"), (100, "new")]
    assert duck(f"SELECT id, name FROM {name} ORDER BY id") == expected
    assert duck(f"SELECT _row_id FROM {name} WHERE id = 95") == [(95,)]
    table = catalog.load_table((namespace, "third"))
    assert table.format_version == 3
    assert table.metadata.next_row_id == 102
    assert {row["file_format"].lower() for row in table.inspect.delete_files().to_pylist()} == {"puffin"}
    assert [tuple(row.values()) for row in rows_of(table)] == expected


def test_every_type_round_trips(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    duck(
        f"CREATE TABLE lake.{namespace}.types (id BIGINT, b BOOLEAN, i INTEGER, f FLOAT, d DOUBLE, n DECIMAL(38, 3),"
        " dt DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, s VARCHAR, u UUID, bl BLOB, li INTEGER[],"
        " st STRUCT(x INTEGER, y VARCHAR[]), m MAP(VARCHAR, BIGINT))"
    )
    duck(
        f"INSERT INTO lake.{namespace}.types VALUES (1, true, 2, 1.5, 2.5, 3.125, '2026-01-01', '12:34:56.789',"
        " '2026-01-01 12:00:00.000001', '2026-01-01 12:00:00+02', 'tëxt', '6f9619ff-8b86-d011-b42d-00c04fc964ff',"
        " '\\xAA\\x00'::BLOB, [1, NULL], {'x': 1, 'y': ['z']}, MAP {'k': 9})"
    )
    duck(f"INSERT INTO lake.{namespace}.types BY NAME SELECT 2 AS id")
    value = {
        "id": 1,
        "b": True,
        "i": 2,
        "f": 1.5,
        "d": 2.5,
        "n": Decimal("3.125"),
        "dt": date(2026, 1, 1),
        "tm": time(12, 34, 56, 789000),
        "ts": datetime(2026, 1, 1, 12, 0, 0, 1),
        "tz": datetime(2026, 1, 1, 10, 0, tzinfo=UTC),
        "s": "tëxt",
        "u": uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        "bl": b"\xaa\x00",
        "li": [1, None],
        "st": {"x": 1, "y": ["z"]},
        "m": [("k", 9)],
    }
    nothing = dict.fromkeys(value) | {"id": 2}
    assert rows_of(catalog.load_table((namespace, "types"))) == [value, nothing]
    read = duck(f"SELECT * EXCLUDE (tz, m), epoch_ms(tz), m['k'] FROM lake.{namespace}.types WHERE id = 1")
    plain = [one for name, one in value.items() if name not in ("tz", "m")]
    assert [list(row) for row in read] == [[*plain, 1767261600000, 9]]


def test_partitions_are_created_and_pruned(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    name = f"lake.{namespace}.parted"
    duck(
        f"CREATE TABLE {name} (id BIGINT, region VARCHAR, moment TIMESTAMP)"
        " PARTITIONED BY (region, month(moment), bucket(4, id), truncate(2, region))"
    )
    duck(
        f"INSERT INTO {name} SELECT range, ['europe', 'america'][1 + range % 2],"
        " TIMESTAMP '2026-01-01' + INTERVAL (range) DAY FROM range(60)"
    )
    table = catalog.load_table((namespace, "parted"))
    assert [str(field.transform) for field in table.spec().fields] == ["identity", "month", "bucket[4]", "truncate[2]"]
    assert ids_of(table) == list(range(60))
    everything = len(list(table.scan().plan_files()))
    assert 0 < len(list(table.scan(row_filter="region = 'europe'").plan_files())) < everything
    assert ids_of(table, row_filter="region = 'europe' and id < 10") == [0, 2, 4, 6, 8]
    assert duck(f"SELECT count(*) FROM {name} WHERE region = 'europe' AND moment < '2026-02-01'") == [(16,)]
    duck(f"DELETE FROM {name} WHERE region = 'america'")
    assert ids_of(catalog.load_table((namespace, "parted"))) == list(range(0, 60, 2))


def test_table_is_altered(duck: Duck, catalog: RestCatalog, namespace: str, people: str) -> None:
    duck(f"ALTER TABLE {people} ADD COLUMN score INTEGER")
    duck(f"ALTER TABLE {people} RENAME COLUMN name TO title")
    duck(f"ALTER TABLE {people} ALTER COLUMN score TYPE BIGINT")
    duck(f"ALTER TABLE {people} DROP COLUMN day")
    duck(f"ALTER TABLE {people} SET PARTITIONED BY (bucket(2, id))")
    duck(f"CALL set_iceberg_table_properties({people}, {{'owner': 'duck', 'gone': '1'}})")
    duck(f"CALL remove_iceberg_table_properties({people}, ['gone'])")
    duck(f"INSERT INTO {people} VALUES (4, 'd', 40)")
    assert duck(f"SELECT * FROM {people} ORDER BY id")[2:] == [(3, "c", None), (4, "d", 40)]
    table = catalog.load_table((namespace, "people"))
    assert [(field.name, str(field.field_type)) for field in table.schema().fields] == [
        ("id", "long"),
        ("title", "string"),
        ("score", "long"),
    ]
    assert (table.properties["owner"], "gone" in table.properties) == ("duck", False)
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]"]
    assert [row["score"] for row in rows_of(table)] == [None, None, None, 40]


def test_rows_without_the_column_have_its_initial_default(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    name = f"lake.{namespace}.third"
    duck(f"CREATE TABLE {name} (id BIGINT) WITH ('format-version' = '3')")
    duck(f"INSERT INTO {name} VALUES (1)")
    duck(f"ALTER TABLE {name} ADD COLUMN score INTEGER DEFAULT 7")
    duck(f"INSERT INTO {name} VALUES (2, 20)")
    duck(f"INSERT INTO {name} (id) VALUES (3)")
    assert duck(f"SELECT * FROM {name} ORDER BY id") == [(1, 7), (2, 20), (3, 7)]
    assert [row["score"] for row in rows_of(catalog.load_table((namespace, "third")))] == [7, 20, 7]


def test_snapshots_and_time_travel_are_readable(duck: Duck, people: str) -> None:
    duck(f"INSERT INTO {people} VALUES (4, 'd', '2026-01-04')")
    duck(f"DELETE FROM {people} WHERE id = 1")
    snapshots = duck(f"SELECT snapshot_id, timestamp_ms FROM iceberg_snapshots({people}) ORDER BY sequence_number")
    counts = [duck(f"SELECT count(*) FROM {people} AT (VERSION => {number})")[0][0] for number, _ in snapshots]
    assert counts == [3, 4, 3]
    moment = snapshots[1][1].strftime("%Y-%m-%d %H:%M:%S.%f")
    assert duck(f"SELECT count(*) FROM {people} AT (TIMESTAMP => TIMESTAMP '{moment}')") == [(4,)]


def test_table_is_renamed_and_dropped(
    lake: Lake, duck: Duck, catalog: RestCatalog, namespace: str, people: str, s3: Any
) -> None:
    duck(f'ALTER TABLE {people} RENAME TO "Ünï.1"')
    assert catalog.list_tables(namespace) == [(namespace, "Ünï.1")]
    assert duck(f'SELECT count(*) FROM lake.{namespace}."Ünï.1"') == [(3,)]
    location = catalog.load_table((namespace, "Ünï.1")).location()
    duck(f'DROP TABLE lake.{namespace}."Ünï.1"')
    assert catalog.list_tables(namespace) == []
    assert all_keys(s3, lake.warehouse, location.removeprefix(f"s3://{lake.warehouse}/"))


@pytest.mark.parametrize("name", ["with.dot", "UPPER", "ünïcödé-名前", "with blank", "100%", "a+b"])
def test_names_may_be_any_text(duck: Duck, catalog: RestCatalog, namespace: str, name: str) -> None:
    duck(f'CREATE TABLE lake.{namespace}."{name}" (id BIGINT)')
    duck(f'INSERT INTO lake.{namespace}."{name}" VALUES (1)')
    assert duck(f'SELECT * FROM lake.{namespace}."{name}"') == [(1,)]
    assert catalog.list_tables(namespace) == [(namespace, name)]


# -- transactions ------------------------------------------------------------------------------------------------------


def test_tables_are_changed_in_one_transaction(duck: Duck, catalog: RestCatalog, namespace: str, people: str) -> None:
    other = f"lake.{namespace}.other"
    duck(f"CREATE TABLE {other} (id BIGINT)")
    duck("BEGIN")
    duck(f"INSERT INTO {people} VALUES (4, 'd', '2026-01-04')")
    duck(f"INSERT INTO {other} VALUES (1), (2)")
    duck(f"DELETE FROM {people} WHERE id = 1")
    assert duck(f"SELECT count(*) FROM {people}") == [(3,)]
    assert ids_of(catalog.load_table((namespace, "people"))) == [1, 2, 3]
    duck("COMMIT")
    assert ids_of(catalog.load_table((namespace, "people"))) == [2, 3, 4]
    assert ids_of(catalog.load_table((namespace, "other"))) == [1, 2]


def test_rolled_back_transaction_leaves_no_trace(duck: Duck, catalog: RestCatalog, namespace: str, people: str) -> None:
    before = catalog.load_table((namespace, "people")).metadata
    duck("BEGIN")
    duck(f"DELETE FROM {people}")
    duck(f"CREATE TABLE lake.{namespace}.never (id BIGINT)")
    duck("ROLLBACK")
    assert catalog.load_table((namespace, "people")).metadata == before
    assert catalog.list_tables(namespace) == [(namespace, "people")]


def test_one_of_two_conflicting_transactions_succeeds(lake: Lake, duck: Duck, people: str) -> None:
    with duckdb_on(lake) as rival:
        duck("BEGIN")
        duck(f"DELETE FROM {people} WHERE id = 1")
        rival(f"DELETE FROM {people} WHERE id = 1")
        with pytest.raises(duckdb.Error):
            duck("COMMIT")
        assert rival(f"SELECT id FROM {people} ORDER BY id") == [(2,), (3,)]
    assert duck(f"SELECT id FROM {people} ORDER BY id") == [(2,), (3,)]
