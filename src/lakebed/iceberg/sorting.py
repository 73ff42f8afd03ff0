"""Sort orders: their fields, and the rules for a new order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import Raw

from lakebed.core.errors import InvalidInput

from .documents import DocumentElement, Int, check_unique, make, read, read_list, rewrite
from .schema import UNASSIGNED, Schema
from .transforms import check_source, parse_transform
from .types import FieldId

__all__ = [
    "UNSORTED_ID",
    "SortField",
    "SortOrder",
    "bind_order",
    "check_order",
    "parse_order",
    "parse_orders",
    "unsorted",
]

UNSORTED_ID: Final = 0
"""The id that is reserved for the unsorted order."""


class SortField(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A sort field."""

    transform: str
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]
    source_id: FieldId | None = None
    source_ids: tuple[FieldId, ...] | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        """The ids of its source columns."""
        if self.source_id is not None:
            return (self.source_id,)
        return self.source_ids or ()

    @property
    def meaning(self) -> tuple[object, ...]:
        """A key by which sort fields are equivalent."""
        return self.sources, parse_transform(self.transform).text, self.direction, self.null_order


class SortOrder(DocumentElement, frozen=True):
    """A sort order, most significant field first."""

    fields: tuple[SortField, ...]
    order_id: Int = UNASSIGNED

    def is_equivalent(self, other: SortOrder) -> bool:
        """Whether two orders are equivalent."""
        return [field.meaning for field in self.fields] == [field.meaning for field in other.fields]


def unsorted() -> SortOrder:
    """The unsorted order."""
    return make(SortOrder, {"order-id": UNSORTED_ID, "fields": []}, "sort-order")


def parse_order(written: Raw | bytes, where: str) -> SortOrder:
    """Parse an order. Raises InvalidInput that names the field."""
    order = read(SortOrder, written, where)
    _check_sources(order, where)
    return order


def parse_orders(written: Raw, where: str) -> dict[int, SortOrder]:
    """Parse a table's orders, by id."""
    orders = read_list(SortOrder, written, where)
    for index, order in enumerate(orders):
        _check_sources(order, f"{where}[{index}]")
        if order.order_id < 0:
            raise InvalidInput(f"{where}[{index}].order-id: is required and must not be negative", argument=where)
        if (order.order_id == UNSORTED_ID) != (not order.fields):
            raise InvalidInput(f"{where}[{index}].order-id: {UNSORTED_ID} is reserved for the unsorted order")
    check_unique("order-id", [order.order_id for order in orders], where)
    return {order.order_id: order for order in orders}


def bind_order(order: SortOrder, schema: Schema, known: Mapping[int, SortOrder]) -> SortOrder:
    """An order to add to a table: a known equivalent one, or the order itself, checked and with the next id."""
    for one in known.values():
        if one.is_equivalent(order):
            return one
    if not order.fields:
        return unsorted()
    check_order(order, schema)
    order_id = max(known, default=UNSORTED_ID) + 1
    if order.order_id == order_id:
        return order
    return read(SortOrder, rewrite(order.written, {"order-id": order_id}), "sort-order")


def check_order(order: SortOrder, schema: Schema) -> None:
    """Raise InvalidInput for an order that does not match the schema of the table."""
    for field in order.fields:
        check_source(parse_transform(field.transform), field.sources, schema, "sort field")


def _check_sources(order: SortOrder, where: str) -> None:
    for index, field in enumerate(order.fields):
        if not field.sources:
            raise InvalidInput(f"{where}.fields[{index}]: source-id is missing", argument=where)
