"""Decodes filter predicates of fetch requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.schema import Schema
from lakebed.streams.log.reading.predicates import CompoundPredicate, LeafFunction, LeafPredicate, Predicate

from . import messages_pb2 as pb

__all__ = ["read_predicate"]

_LEAF, _COMPOUND = 0, 1
_AND, _OR = 0, 1
_NANOS_PER_MILLI: Final = 10**6
_DECIMAL: Final = 9

_VALUES: Final[Mapping[int, Callable[[pb.FilterLiteral], Any]]] = {
    0: lambda literal: literal.boolean_value,
    1: lambda literal: literal.int_value,
    2: lambda literal: literal.int_value,
    3: lambda literal: literal.int_value,
    4: lambda literal: literal.bigint_value,
    5: lambda literal: literal.float_value,
    6: lambda literal: literal.double_value,
    7: lambda literal: literal.string_value,
    8: lambda literal: literal.string_value,
    10: lambda literal: literal.int_value,
    11: lambda literal: literal.int_value,
    12: lambda literal: literal.timestamp_millis * _NANOS_PER_MILLI + literal.timestamp_nanos,
    13: lambda literal: literal.timestamp_millis * _NANOS_PER_MILLI + literal.timestamp_nanos,
}
"""By the protocol's number of the type. Literals of other types are not compared."""


def read_predicate(message: pb.FilterPredicate, schema: Schema) -> Predicate:
    """The predicate on columns of the schema. Raises CORRUPT_MESSAGE."""
    if message.kind == _LEAF and message.HasField("leaf"):
        leaf = message.leaf
        try:
            function = LeafFunction(leaf.function)
        except ValueError:
            raise _invalid(f"function={leaf.function}") from None
        scale = next((column.type.scale for column in schema.columns if column.id == leaf.column_id), None) or 0
        return LeafPredicate(function, leaf.column_id, tuple(_value(literal, scale) for literal in leaf.literals))
    if message.kind == _COMPOUND and message.HasField("compound") and message.compound.function in (_AND, _OR):
        parts = tuple(read_predicate(child, schema) for child in message.compound.children)
        return CompoundPredicate(message.compound.function == _AND, parts)
    raise _invalid(f"kind={message.kind}")


def _value(literal: pb.FilterLiteral, scale: int) -> Any:
    if literal.is_null:
        return None
    if literal.type == _DECIMAL:
        if literal.HasField("decimal_value"):
            return Decimal(literal.decimal_value).scaleb(-scale)
        return Decimal(int.from_bytes(literal.decimal_bytes, "big", signed=True)).scaleb(-scale)
    read = _VALUES.get(literal.type)
    return None if read is None else read(literal)


def _invalid(detail: str) -> FlussError:
    return FlussError(ErrorCode.CORRUPT_MESSAGE, f"invalid filter predicate. {detail}")
