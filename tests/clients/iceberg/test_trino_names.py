"""Trino and names: nested schemas; renamed, absent and dropped tables."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from pyiceberg.catalog.rest import RestCatalog
from trino.exceptions import TrinoQueryError, TrinoUserError

from tests.clients.boto import all_keys
from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import ids_of
from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS

_PURGE_SECONDS: Final = 60.0


# -- schemas ---------------------------------------------------------------------------------------------------------


def test_nested_namespaces_are_created_listed_and_dropped(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str
) -> None:
    outer, inner = trino.schema(namespace, "a"), trino.schema(namespace, "a", "b")
    trino.sql(f"CREATE SCHEMA {outer}")
    trino.sql(f"CREATE SCHEMA {inner}")
    shown = [name for name in trino.column(f"SHOW SCHEMAS FROM {trino.name}") if name.startswith(namespace)]
    assert shown == [namespace, f"{namespace}.a", f"{namespace}.a.b"]
    assert catalog.list_namespaces((namespace, "a")) == [(namespace, "a", "b")]
    trino.sql(f"CREATE TABLE {inner}.t AS SELECT 1 AS id")
    assert trino.sql(f"SHOW TABLES FROM {inner}") == [("t",)]
    assert trino.sql(f"SHOW TABLES FROM {outer}") == []
    assert trino.sql(f"SELECT * FROM {inner}.t") == [(1,)]
    for schema, why in ((outer, "contains namespaces"), (inner, "Cannot drop non-empty schema")):
        with pytest.raises(TrinoQueryError, match=why):
            trino.sql(f"DROP SCHEMA {schema}")
    trino.sql(f"DROP TABLE {inner}.t")
    trino.sql(f"DROP SCHEMA {inner}")
    trino.sql(f"DROP SCHEMA {outer}")
    assert catalog.list_namespaces(namespace) == []


def test_tables_are_created_in_the_location_of_their_schema(
    trino: TrinoCatalog, catalog: RestCatalog, lake: Lake, s3: Any, namespace: str
) -> None:
    schema, place = trino.schema(namespace, "placed"), f"places/{namespace}"
    trino.sql(f"CREATE SCHEMA {schema} WITH (location = 's3://{lake.warehouse}/{place}')")
    trino.sql(f"CREATE TABLE {schema}.made (id BIGINT)")
    trino.sql(f"CREATE TABLE {schema}.queried AS SELECT id FROM UNNEST(sequence(1, 3)) AS s (id)")
    trino.sql(f"INSERT INTO {schema}.made SELECT * FROM {schema}.queried")
    assert ids_of(catalog.load_table((namespace, "placed", "made"))) == [1, 2, 3]
    folders = {key.removeprefix(f"{place}/").split("-")[0] for key in all_keys(s3, lake.warehouse, f"{place}/")}
    assert folders == {"made", "queried"}


# -- tables ----------------------------------------------------------------------------------------------------------


def test_renamed_table_keeps_its_rows_and_frees_its_name(trino: TrinoCatalog, namespace: str) -> None:
    t, other = trino.table(namespace), trino.schema(namespace, "a")
    trino.sql(f"CREATE SCHEMA {other}")
    trino.sql(f"CREATE TABLE {t} AS SELECT 1 AS id")
    trino.sql(f"ALTER TABLE {t} RENAME TO {other}.renamed")
    trino.sql(f"CREATE TABLE {t} AS SELECT 2 AS id")
    trino.sql(f"INSERT INTO {other}.renamed VALUES (3)")
    assert trino.column(f"SELECT id FROM {other}.renamed ORDER BY id") == [1, 3]
    assert trino.column(f"SELECT id FROM {t}") == [2]


def test_absent_tables_are_reported(trino: TrinoCatalog, namespace: str) -> None:
    absent = trino.table(namespace, "none")
    for statement in (f"SELECT * FROM {absent}", f"DROP TABLE {absent}", f"INSERT INTO {absent} VALUES (1)"):
        with pytest.raises(TrinoUserError, match="does not exist") as caught:
            trino.sql(statement)
        assert caught.value.error_name == "TABLE_NOT_FOUND"
    trino.sql(f"DROP TABLE IF EXISTS {absent}")
    with pytest.raises(TrinoUserError, match="does not exist") as caught:
        trino.sql(f"SELECT * FROM {trino.table('none', 'none')}")
    assert caught.value.error_name == "SCHEMA_NOT_FOUND"


def test_drop_deletes_files_and_unregister_keeps_them(
    trino: TrinoCatalog, catalog: RestCatalog, lake: Lake, s3: Any, namespace: str
) -> None:
    prefixes = {}
    for name in ("dropped", "unregistered"):
        t = trino.table(namespace, name)
        trino.sql(f"CREATE TABLE {t} AS SELECT 1 AS id")
        location = catalog.load_table((namespace, name)).location()
        prefixes[name] = location.removeprefix(f"s3://{lake.warehouse}/") + "/"
    kept = all_keys(s3, lake.warehouse, prefixes["unregistered"])
    assert len(kept) > 3
    trino.sql(f"DROP TABLE {trino.table(namespace, 'dropped')}")
    trino.sql(f"CALL {trino.name}.system.unregister_table('{namespace}', 'unregistered')")
    assert trino.sql(f"SHOW TABLES FROM {trino.schema(namespace)}") == []
    deadline = time.monotonic() + _PURGE_SECONDS
    while all_keys(s3, lake.warehouse, prefixes["dropped"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all_keys(s3, lake.warehouse, prefixes["dropped"]) == []
    assert all_keys(s3, lake.warehouse, prefixes["unregistered"]) == kept
