"""Sort orders: their fields, and the rules for a new order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Raw

from lakebed.core.errors import InvalidInput

from .documents import DocumentElement, Int, check_unique, make, read, read_list, rewrite
from .schema import UNASSIGNED, Schema
from .transforms import TransformedField, check_have_sources, check_source

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


class SortField(TransformedField, frozen=True, kw_only=True):
    """A sort field."""

    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]

    @property
    def meaning(self) -> tuple[object, ...]:
        """A key by which sort fields are equivalent."""
        return self.sources, self.parsed_transform.text, self.direction, self.null_order


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
    check_have_sources(order.fields, where)
    return order


def parse_orders(written: Raw, where: str) -> dict[int, SortOrder]:
    """Parse a table's orders, by id."""
    orders = read_list(SortOrder, written, where)
    for index, order in enumerate(orders):
        check_have_sources(order.fields, f"{where}[{index}]")
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
        check_source(field.parsed_transform, field.sources, schema, "sort field")
