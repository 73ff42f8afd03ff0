from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.documents import encode
from lakebed.iceberg.schema import parse_schema
from lakebed.iceberg.sorting import SortOrder, bind_order, parse_order, parse_orders, unsorted

from .samples import COLUMNS, Json, dump, sort

SCHEMA = parse_schema(dump(COLUMNS), "schema")


def order(*fields: Json, id_: int = 0) -> SortOrder:
    return parse_order(dump({"order-id": id_, "fields": list(fields)}), "order")


def test_unsorted_order_has_id_0() -> None:
    assert bind_order(order(id_=5), SCHEMA, {}).order_id == 0


def test_other_orders_get_the_next_id_from_1() -> None:
    assert bind_order(order(sort(1)), SCHEMA, {}).order_id == 1
    bound = bind_order(order(sort(1)), SCHEMA, {0: unsorted(), 4: order(sort(2), id_=4)})
    assert bound.order_id == 5
    assert parse_order(bound.written, "order").order_id == 5


@pytest.mark.parametrize(
    ("field", "same"),
    [
        (sort(1), True),
        (sort(1, "IDENTITY"), True),
        ({**sort(1), "source-ids": [1]}, True),
        (sort(2), False),
        (sort(1, "bucket[4]"), False),
        (sort(1, direction="desc"), False),
        (sort(1, nulls="nulls-last"), False),
    ],
)
def test_equal_order_is_reused(field: Json, same: bool) -> None:
    known = {3: order(sort(1), id_=3)}
    assert (bind_order(order(field), SCHEMA, known) is known[3]) is same


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (sort(99), "sort field has a source column that the current schema does not have. id=99"),
        (sort(4), "sort field does not support column place. transform=identity type=nested"),
        (sort(1, "day"), "sort field does not support column id. transform=day type=long"),
        (sort(1, "zorder"), "unknown transform. transform=zorder"),
    ],
)
def test_invalid_orders_are_rejected(field: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        bind_order(order(field), SCHEMA, {})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([{"order-id": 1, "fields": []}], r"orders\[0\]\.order-id: 0 is reserved for the unsorted order"),
        ([{"order-id": 0, "fields": [sort(1)]}], r"orders\[0\]\.order-id: 0 is reserved"),
        ([{"order-id": 1, "fields": [sort(1)]}] * 2, "order-id is repeated. order-id=1"),
        ([{"fields": [sort(1)]}], r"orders\[0\]\.order-id: is required"),
        (
            [{"order-id": 1, "fields": [sort(1, direction="up")]}],
            r"orders\[0\]\.fields\[0\]\.direction: invalid enum value",
        ),
        (
            [{"order-id": 1, "fields": [{**sort(1), "source-id": None}]}],
            r"orders\[0\]\.fields\[0\]: source-id is missing",
        ),
    ],
)
def test_invalid_lists_of_orders_are_rejected(document: list[Json], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_orders(encode(document), "orders")
