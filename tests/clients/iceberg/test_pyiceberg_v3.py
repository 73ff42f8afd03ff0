"""PyIceberg and tables of format version 3: it creates, changes and reads them, but cannot write rows."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestampNanoType, TimestamptzNanoType, UnknownType

from tests.clients.iceberg.rows import SCHEMA, people

pytestmark = pytest.mark.integration

THIRD = {"format-version": "3"}


def test_table_of_format_version_3_is_created_and_loaded(catalog: RestCatalog, namespace: str) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestampNanoType()),
        NestedField(3, "at_zone", TimestamptzNanoType()),
        NestedField(4, "nothing", UnknownType()),
    )
    made = catalog.create_table((namespace, "t"), schema, properties=THIRD)
    table = catalog.load_table((namespace, "t"))
    assert table.format_version == 3
    assert table.metadata.next_row_id == 0
    assert table.schema() == schema
    assert table.metadata == made.metadata
    assert table.scan().to_arrow().num_rows == 0


def test_types_of_format_version_3_are_refused_in_version_2(catalog: RestCatalog, namespace: str) -> None:
    schema = Schema(NestedField(1, "at", TimestampNanoType()))
    with pytest.raises(BadRequestError):
        catalog.create_table((namespace, "t"), schema, properties={"format-version": "2"})
    assert not catalog.table_exists((namespace, "t"))


def test_rows_without_the_column_have_its_initial_default(catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=THIRD)
    with table.update_schema() as update:
        update.add_column("kind", StringType(), required=True, default_value="plain")
        update.add_column("number", LongType(), default_value=7)
    kind = catalog.load_table((namespace, "t")).schema().find_field("kind")
    assert (kind.required, kind.initial_default, kind.write_default) == (True, "plain", "plain")
    with table.update_schema() as update:
        update.set_default_value("kind", "fancy")
    kind = catalog.load_table((namespace, "t")).schema().find_field("kind")
    assert (kind.initial_default, kind.write_default) == ("plain", "fancy")


def test_initial_default_is_refused_in_format_version_2(catalog: RestCatalog, namespace: str) -> None:
    table = catalog.create_table((namespace, "t"), SCHEMA)
    with pytest.raises(BadRequestError, match="default"), table.update_schema() as update:
        update.add_column("kind", StringType(), default_value="plain")
    assert catalog.load_table((namespace, "t")).schema() == SCHEMA


def test_pyiceberg_cannot_write_rows_of_format_version_3(catalog: RestCatalog, namespace: str) -> None:
    """A limitation of PyIceberg 0.12: when this fails, add tests of writes."""
    table = catalog.create_table((namespace, "t"), SCHEMA, properties=THIRD)
    with pytest.raises(ValueError, match="table version: 3"):
        table.append(people(1))
    assert catalog.load_table((namespace, "t")).current_snapshot() is None
