"""Many PyIceberg writers on one table: every acknowledged commit is applied once, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import StringType

from tests.clients.iceberg.lake import Lake
from tests.clients.iceberg.rows import SCHEMA, ids_of, people

pytestmark = pytest.mark.integration

WRITERS = 4
APPENDS = 4


def together(work: Callable[[int], list[int]]) -> list[int]:
    """Run the writers concurrently; the ids that they report as written."""
    with ThreadPoolExecutor(WRITERS) as pool:
        return sorted(id_ for done in pool.map(work, range(WRITERS)) for id_ in done)


@pytest.mark.parametrize("retries", ["0", "30"], ids=["giving-up", "trying-again"])
def test_table_has_the_rows_of_successful_appends(
    lake: Lake, catalog: RestCatalog, namespace: str, retries: str
) -> None:
    properties = {
        "commit.retry.num-retries": retries,
        "commit.retry.min-wait-ms": "5",
        "commit.retry.max-wait-ms": "100",
    }
    catalog.create_table((namespace, "t"), SCHEMA, properties=properties)

    def write(writer: int) -> list[int]:
        done = []
        with lake.catalog() as own:
            for number in range(APPENDS):
                one = writer * APPENDS + number
                try:
                    own.load_table((namespace, "t")).append(people(one))
                except CommitFailedException:
                    continue
                done.append(one)
        return done

    done = together(write)
    table = catalog.load_table((namespace, "t"))
    assert ids_of(table) == done
    assert len(table.snapshots()) == len(done)
    assert table.metadata.last_sequence_number == len(done)
    assert len(done) >= APPENDS
    if retries != "0":
        assert done == list(range(WRITERS * APPENDS))


def test_independent_changes_all_succeed(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    """Property updates require only the same table, so the server retries them."""
    catalog.create_table((namespace, "t"), SCHEMA)

    def write(writer: int) -> list[int]:
        with lake.catalog() as own:
            table = own.load_table((namespace, "t"))
            for number in range(APPENDS):
                with table.transaction() as transaction:
                    transaction.set_properties({f"w{writer}-{number}": "done"})
        return list(range(writer * APPENDS, (writer + 1) * APPENDS))

    assert len(together(write)) == WRITERS * APPENDS
    properties = catalog.load_table((namespace, "t")).properties
    assert sum(value == "done" for value in properties.values()) == WRITERS * APPENDS


def test_writers_of_different_tables_do_not_conflict(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    def write(writer: int) -> list[int]:
        with lake.catalog() as own:
            table = own.create_table((namespace, f"t{writer}"), SCHEMA)
            for number in range(APPENDS):
                table.append(people(number))
            return ids_of(table)

    assert together(write) == sorted(list(range(APPENDS)) * WRITERS)


def test_concurrent_deletes_and_appends_both_take_effect(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    properties = {"commit.retry.num-retries": "10", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "100"}
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=properties)
    table.append(people(*range(100, 100 + WRITERS)))

    def write(writer: int) -> list[int]:
        with lake.catalog() as own:
            own.load_table((namespace, "t")).append(people(writer))
            if writer == 0:
                try:
                    own.load_table((namespace, "t")).delete("id = 100")
                except CommitFailedException:
                    return []
                return [100]
        return []

    deleted = together(write)
    expected = {*range(WRITERS), *range(100, 100 + WRITERS)} - set(deleted)
    assert ids_of(catalog.load_table((namespace, "t"))) == sorted(expected)


def test_one_of_two_concurrent_schema_changes_succeeds(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_table((namespace, "t"), SCHEMA)

    def change(writer: int, table: Table) -> list[int]:
        try:
            with table.update_schema() as update:
                update.add_column(f"c{writer}", StringType())
        except CommitFailedException:
            return []
        return [writer]

    def write(writer: int) -> list[int]:
        with lake.catalog() as own:
            return change(writer, own.load_table((namespace, "t")))

    won = together(write)
    columns = catalog.load_table((namespace, "t")).schema().column_names
    assert columns[:3] == ["id", "name", "day"]
    assert sorted(columns[3:]) == [f"c{writer}" for writer in won]
    assert won


def test_one_of_many_concurrent_creates_succeeds(lake: Lake, catalog: RestCatalog, namespace: str) -> None:
    def write(writer: int) -> list[int]:
        with lake.catalog() as own:
            staged = own.create_table_transaction((namespace, "t"), SCHEMA)
            staged.append(people(writer))
            try:
                staged.commit_transaction()
            except CommitFailedException:
                return []
        return [writer]

    won = together(write)
    assert len(won) == 1
    assert ids_of(catalog.load_table((namespace, "t"))) == won
