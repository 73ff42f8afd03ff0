from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.partitions import bind_specs, partition_key
from lakebed.iceberg.metadata import parse_table, serialize_table
from tests.iceberg.expressions.columns import FIELDS
from tests.iceberg.expressions.specs import a_layout, a_table, spec_document


def test_each_spec_has_a_layout() -> None:
    table = a_table(spec_document((("ts", "day"),), 0), spec_document((), 7))
    layouts = bind_specs(table, table.schema)
    assert layouts.keys() == {0, 7}
    assert layouts[0].is_partitioned
    assert not layouts[7].is_partitioned
    assert layouts[0].field_ids == (1000,)


def test_dropped_fields_do_not_partition() -> None:
    assert not a_layout((("ts", "void"), ("s", "void"))).is_partitioned
    assert a_layout((("ts", "void"), ("s", "identity"))).is_partitioned


def test_types_of_dropped_columns_are_known() -> None:
    table = a_table(spec_document((("dec", "identity"), ("ts", "day")), 0))
    document = msgspec.json.decode(serialize_table(table))
    document["schemas"].append({"type": "struct", "schema-id": 1, "fields": FIELDS[:2]})
    document["current-schema-id"] = 1
    document["partition-specs"].append({"spec-id": 1, "fields": []})
    document["default-spec-id"] = 1
    evolved = parse_table(msgspec.json.encode(document))
    layout = bind_specs(evolved, evolved.schema)[0]
    assert [field.term.kind and field.term.kind.name for field in layout.fields] == ["decimal", "date"]
    assert layout.partition((Decimal("1.50"), 3)) == (150, 3)


def test_unknown_transform_is_kept_and_not_used() -> None:
    layout = a_layout((("s", "zorder[4]"), ("s", "identity")))
    assert layout.fields[0].function is None
    assert layout.fields[0].term.kind is None
    assert layout.partition((b"\x01", "a")) == (b"\x01", "a")


def test_partition_of_another_spec_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        a_layout((("dec", "identity"),)).partition((Decimal("1.505"),))


def test_floating_point_partitions_are_equal_by_bits() -> None:
    nan = float("nan")
    assert partition_key((nan, "a")) == partition_key((-nan, "a"))
    assert partition_key((0.0,)) != partition_key((-0.0,))
    assert partition_key((1, None)) == partition_key((1, None))
