"""DuckDB and PyIceberg on the same tables: each reads and extends what the other wrote."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import duckdb
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, MonthTransform
from pyiceberg.types import StringType

from tests.clients.iceberg.delegation_relay import relay_requesting_vended_credentials
from tests.clients.iceberg.duck import Duck, duckdb_on
from tests.clients.iceberg.lake import ALIAS, OWN, POLARIS, Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.users import User

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def duck(lake: Lake) -> Iterator[Duck]:
    with duckdb_on(lake) as duck:
        yield duck


def test_tables_written_by_pyiceberg_are_readable(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "bucket"))
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec)
    table.append(people(*range(20)))
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.add_column("more", StringType())
        update.move_first("more")
    with table.update_spec() as update:
        update.add_field("day", MonthTransform(), "month")
        update.remove_field("bucket")
    rows = people(20, 21, day=date(2026, 7, 7)).rename_columns(["id", "title", "day"])
    table.append(rows)
    table.delete("id >= 3 and id < 20")
    name = f"lake.{namespace}.t"
    assert duck(f"SELECT id, title, more, day FROM {name} ORDER BY id") == [
        (0, "name-0", None, date(2026, 1, 1)),
        (1, "name-1", None, date(2026, 1, 1)),
        (2, "name-2", None, date(2026, 1, 1)),
        (20, "name-20", None, date(2026, 7, 7)),
        (21, "name-21", None, date(2026, 7, 7)),
    ]
    assert duck(f"SELECT count(*) FROM {name} WHERE day > '2026-06-01'") == [(2,)]
    assert [row[0] for row in duck(f"DESCRIBE {name}")] == ["more", "id", "title", "day"]


def test_both_engines_write_alternately(duck: Duck, catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA)
    name = f"lake.{namespace}.t"
    table.append(people(1, 2, 3))
    duck(f"DELETE FROM {name} WHERE id = 2")
    duck(f"INSERT INTO {name} VALUES (4, 'd', '2026-01-04')")
    table = table.refresh()
    assert ids_of(table) == [1, 3, 4]
    table.append(people(5))
    table.upsert(people(4, 6, name="upserted"), join_cols=["id"])
    duck(f"UPDATE {name} SET name = 'updated' WHERE id = 5")
    assert duck(f"SELECT id, name FROM {name} ORDER BY id") == [
        (1, "name-1"),
        (3, "name-3"),
        (4, "upserted"),
        (5, "updated"),
        (6, "upserted"),
    ]
    assert ids_of(catalog.load_table((namespace, "t"))) == [1, 3, 4, 5, 6]


def test_both_engines_write_concurrently(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table((namespace, "t"), SCHEMA, properties={"commit.retry.num-retries": "10"})

    def with_duckdb(first: int) -> list[int]:
        done = []
        with duckdb_on(lake) as own:
            for number in range(first, first + 4):
                try:
                    own(f"INSERT INTO lake.{namespace}.t VALUES ({number}, 'duck', '2026-01-01')")
                except duckdb.Error:
                    continue
                done.append(number)
        return done

    def with_pyiceberg(first: int) -> list[int]:
        done = []
        with lake.catalog() as own:
            for number in range(first, first + 4):
                try:
                    own.load_table((namespace, "t")).append(people(number))
                except CommitFailedException:
                    continue
                done.append(number)
        return done

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(with_duckdb, 0), pool.submit(with_duckdb, 4), pool.submit(with_pyiceberg, 8)]
        done = sorted(number for writer in writers for number in writer.result())
    assert done
    assert ids_of(catalog.load_table((namespace, "t"))) == done


# -- access modes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mount", "service"), [(OWN, "s3tables"), (ALIAS, "s3tables"), (POLARIS, "s3")])
def test_catalog_is_the_same_at_all_its_paths(
    lake: Lake, catalog: RestCatalog, namespace: str, mount: str, service: str
) -> None:
    with duckdb_on(lake, mount=mount, service=service) as duck:
        duck(f"CREATE TABLE lake.{namespace}.t AS SELECT 1::BIGINT AS id")
    assert ids_of(catalog.load_table((namespace, "t"))) == [1]


def test_files_are_accessible_with_the_clients_own_credentials(lake: Lake, namespace: str, insider: User) -> None:
    name = f"lake.{namespace}.t"
    with duckdb_on(lake, insider.keys, options=", ACCESS_DELEGATION_MODE 'none'") as duck:
        duck(f"CREATE TABLE {name} AS SELECT range AS id FROM range(3)")
        duck(f"DELETE FROM {name} WHERE id = 1")
        assert duck(f"FROM {name}") == [(0,), (2,)]


def test_credentials_without_s3_permissions_open_no_files(
    lake: Lake, catalog: RestCatalog, namespace: str, engineer: User
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1))
    with duckdb_on(lake, engineer.keys) as duck, pytest.raises(duckdb.Error, match=r"403|Forbidden"):
        duck(f"FROM lake.{namespace}.t")


def test_files_are_accessible_with_vended_credentials(lake: Lake, namespace: str, engineer: User) -> None:
    name = f"lake.{namespace}.t"
    with (
        relay_requesting_vended_credentials(lake.server) as endpoint,
        duckdb_on(lake, engineer.keys, endpoint=endpoint) as duck,
    ):
        duck(f"CREATE TABLE {name} (id BIGINT)")
        duck(f"INSERT INTO {name} VALUES (1), (2)")
        duck(f"DELETE FROM {name} WHERE id = 1")
        assert duck(f"FROM {name}") == [(2,)]
        duck(f"CREATE TABLE lake.{namespace}.staged AS SELECT 3 AS id")
        assert duck(f"FROM lake.{namespace}.staged") == [(3,)]


def test_vended_credentials_of_a_reader_are_read_only(
    lake: Lake, catalog: RestCatalog, namespace: str, analyst: User
) -> None:
    catalog.create_table((namespace, "t"), SCHEMA).append(people(1))
    with (
        relay_requesting_vended_credentials(lake.server) as endpoint,
        duckdb_on(lake, analyst.keys, endpoint=endpoint) as duck,
    ):
        assert duck(f"SELECT id FROM lake.{namespace}.t") == [(1,)]
        for statement in (
            f"INSERT INTO lake.{namespace}.t VALUES (2, 'x', '2026-01-01')",
            f"DELETE FROM lake.{namespace}.t",
            f"DROP TABLE lake.{namespace}.t",
            f"CREATE TABLE lake.{namespace}.u (id BIGINT)",
        ):
            with pytest.raises(duckdb.Error, match=r"403|Forbidden"):
                duck(statement)
    assert ids_of(catalog.load_table((namespace, "t"))) == [1]
