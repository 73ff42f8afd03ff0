"""Trino and PyIceberg on the same tables: each reads and extends what the other wrote."""

from __future__ import annotations

from datetime import date

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, MonthTransform
from pyiceberg.types import StringType
from trino.exceptions import TrinoQueryError

from tests.clients.iceberg.rows import SCHEMA, ids_of, people
from tests.clients.iceberg.trino import TRINO_MARKS, TrinoCatalog

pytestmark = TRINO_MARKS


@pytest.mark.parametrize("version", ["1", "2"])
def test_tables_written_by_pyiceberg_are_readable(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str, version: str
) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "bucket"))
    table = catalog.create_table((namespace, "t"), SCHEMA, partition_spec=spec, properties={"format-version": version})
    table.append(people(*range(20)))
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.add_column("more", StringType())
        update.move_first("more")
    with table.update_spec() as update:
        update.add_field("day", MonthTransform(), "month")
        update.remove_field("bucket")
    table.append(people(20, 21, day=date(2026, 7, 7)).rename_columns(["id", "title", "day"]))
    table.delete("id >= 3 and id < 20")
    t = trino.table(namespace)
    assert trino.sql(f"SELECT * FROM {t} ORDER BY id") == [
        (None, 0, "name-0", date(2026, 1, 1)),
        (None, 1, "name-1", date(2026, 1, 1)),
        (None, 2, "name-2", date(2026, 1, 1)),
        (None, 20, "name-20", date(2026, 7, 7)),
        (None, 21, "name-21", date(2026, 7, 7)),
    ]
    assert trino.value(f"SELECT count(*) FROM {t} WHERE day > DATE '2026-06-01'") == 2


@pytest.mark.parametrize("version", ["1", "2"])
def test_both_engines_write_alternately(
    trino: TrinoCatalog, catalog: RestCatalog, namespace: str, version: str
) -> None:
    t = trino.table(namespace)
    trino.sql(f"CREATE TABLE {t} (id BIGINT, name VARCHAR, day DATE) WITH (format_version = {version})")
    table = catalog.load_table((namespace, "t"))
    table.append(people(1, 2, 3))
    trino.sql(f"INSERT INTO {t} VALUES (4, 'four', DATE '2026-01-04')")
    if version == "2":
        trino.sql(f"UPDATE {t} SET name = 'updated' WHERE id = 2")
    table = table.refresh()
    assert ids_of(table) == [1, 2, 3, 4]
    table.upsert(people(4, 5, name="upserted"), join_cols=["id"])
    table.delete("id = 3")
    assert trino.sql(f"SELECT id, name FROM {t} ORDER BY id") == [
        (1, "name-1"),
        (2, "updated" if version == "2" else "name-2"),
        (4, "upserted"),
        (5, "upserted"),
    ]


def test_format_version_3_is_read_and_appended_to(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    """Other changes are a limitation of Trino 476: when this fails, add tests of them."""
    catalog.create_table((namespace, "t"), SCHEMA, properties={"format-version": "3"})
    t = trino.table(namespace)
    trino.sql(f"INSERT INTO {t} VALUES (1, 'one', DATE '2026-01-01'), (2, 'two', DATE '2026-01-02')")
    trino.sql(f"INSERT INTO {t} VALUES (3, 'three', DATE '2026-01-03')")
    table = catalog.load_table((namespace, "t"))
    assert ids_of(table) == trino.column(f"SELECT id FROM {t} ORDER BY id") == [1, 2, 3]
    assert table.metadata.next_row_id == 3
    with pytest.raises(TrinoQueryError, match="Must use DVs for position deletes"):
        trino.sql(f"DELETE FROM {t} WHERE id = 1")
    with pytest.raises(TrinoQueryError, match="format_version must be between 1 and 2"):
        trino.sql(f"CREATE TABLE {trino.table(namespace, 'u')} (id BIGINT) WITH (format_version = 3)")


def test_namespaces_and_tables_of_both_are_listed(trino: TrinoCatalog, catalog: RestCatalog, namespace: str) -> None:
    catalog.create_namespace((namespace, "inner"))
    catalog.create_table((namespace, "inner", "theirs"), SCHEMA)
    trino.sql(f"CREATE TABLE {trino.schema(namespace, 'inner')}.ours (id BIGINT)")
    assert trino.sql(f"SHOW TABLES FROM {trino.schema(namespace, 'inner')}") == [("ours",), ("theirs",)]
    assert sorted(catalog.list_tables((namespace, "inner"))) == [
        (namespace, "inner", "ours"),
        (namespace, "inner", "theirs"),
    ]
