"""Partition specs for tests, for planning and for PyIceberg."""

from __future__ import annotations

from functools import cache

import msgspec
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import parse_transform as py_transform

from lakebed.iceberg.expressions.partitions import BoundSpec, bind_specs
from lakebed.iceberg.metadata import TableMetadata, parse_table
from tests.iceberg.expressions.columns import BY_NAME, FIELDS

Fields = tuple[tuple[str, str], ...]
"""Column names with their transforms."""


def spec_document(fields: Fields, spec_id: int = 0) -> dict[str, object]:
    return {
        "spec-id": spec_id,
        "fields": [
            {"source-id": BY_NAME[name].id, "field-id": 1000 + at, "name": f"p{at}", "transform": transform}
            for at, (name, transform) in enumerate(fields)
        ],
    }


def a_table(*specs: dict[str, object]) -> TableMetadata:
    document = {
        "format-version": 3,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "s3://lake/t",
        "last-updated-ms": 0,
        "last-sequence-number": 0,
        "next-row-id": 0,
        "last-column-id": 100,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
        "current-schema-id": 0,
        "partition-specs": list(specs),
        "default-spec-id": specs[0]["spec-id"],
        "last-partition-id": 2000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }
    return parse_table(msgspec.json.encode(document))


@cache
def a_layout(fields: Fields) -> BoundSpec:
    table = a_table(spec_document(fields))
    return bind_specs(table, table.schema)[0]


@cache
def py_spec(fields: Fields) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(BY_NAME[name].id, 1000 + at, py_transform(transform), f"p{at}")
            for at, (name, transform) in enumerate(fields)
        )
    )
