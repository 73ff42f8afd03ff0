"""Hypothesis strategies for types, schemas and rows of streams."""

from __future__ import annotations

import decimal
from typing import Any

from hypothesis import strategies as st

from lakebed.fluss.schema import Schema
from lakebed.fluss.types import DataType, RowField, TypeRoot

PLAIN = [root for root in TypeRoot if root not in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.ROW)]
LETTERS = "az09 \0é日😀"  # one to four bytes each; the whole of Unicode takes Hypothesis a minute to learn
TIMED = (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


@st.composite
def plain_types(draw: st.DrawFn) -> DataType:
    root = draw(st.sampled_from(PLAIN))
    nullable = draw(st.booleans())
    if root in (TypeRoot.CHAR, TypeRoot.BINARY):
        return DataType(root, nullable, length=draw(st.integers(1, 12)))
    if root is TypeRoot.DECIMAL:
        precision = draw(st.integers(1, 38))
        return DataType(root, nullable, precision=precision, scale=draw(st.integers(0, precision)))
    if root in TIMED:
        return DataType(root, nullable, precision=draw(st.integers(0, 9)))
    return DataType(root, nullable)


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    keys = plain_types().map(lambda each: each.of(is_nullable=False))
    rows = st.lists(inner, min_size=1, max_size=3).map(
        lambda types: DataType(TypeRoot.ROW, fields=tuple(RowField(f"f{i}", each) for i, each in enumerate(types)))
    )
    return st.one_of(
        st.builds(lambda element, nullable: DataType(TypeRoot.ARRAY, nullable, element=element), inner, st.booleans()),
        st.builds(lambda key, value: DataType(TypeRoot.MAP, key=key, value=value), keys, inner),
        rows,
    )


types = st.recursive(plain_types(), _nested, max_leaves=4)


@st.composite
def schemas(draw: st.DrawFn, of: st.SearchStrategy[DataType] = types) -> Schema:
    chosen = draw(st.lists(of, min_size=1, max_size=10))
    return Schema.of([(f"c{index}", each) for index, each in enumerate(chosen)])


def values(type_: DataType) -> st.SearchStrategy[Any]:
    """Python values of the type."""
    found = _values(type_)
    return st.none() | found if type_.is_nullable else found


def rows(schema: Schema) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(values(column.type) for column in schema.columns))


def _values(type_: DataType) -> st.SearchStrategy[Any]:
    match type_.root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.TINYINT:
            return st.integers(-(2**7), 2**7 - 1)
        case TypeRoot.SMALLINT:
            return st.integers(-(2**15), 2**15 - 1)
        case TypeRoot.INT:
            return st.integers(-(2**31), 2**31 - 1)
        case TypeRoot.BIGINT:
            return st.integers(-(2**63), 2**63 - 1)
        case TypeRoot.FLOAT:
            return st.floats(width=32, allow_nan=False)
        case TypeRoot.DOUBLE:
            return st.floats(allow_nan=False)
        case TypeRoot.CHAR:
            return st.text(LETTERS, max_size=type_.length)
        case TypeRoot.STRING:
            return st.text(LETTERS, max_size=20)
        case TypeRoot.BYTES:
            return st.binary(max_size=20)
        case TypeRoot.BINARY:
            return st.binary(min_size=type_.length or 0, max_size=type_.length)
        case TypeRoot.DECIMAL:
            most = 10 ** (type_.precision or 0) - 1
            return st.integers(-most, most).map(lambda unscaled: _scaled(unscaled, type_.scale or 0))
        case TypeRoot.DATE:
            return st.integers(-700_000, 2_900_000)
        case TypeRoot.TIME:
            return st.integers(0, 86_399_999).map(lambda millis: _cut_time(millis, type_.precision or 0))
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return st.tuples(st.integers(-(10**12), 4 * 10**12), st.integers(0, 999_999)).map(
                lambda found: _cut(found, type_.precision or 0)
            )
        case TypeRoot.ARRAY:
            assert type_.element is not None
            return st.lists(values(type_.element), max_size=4)
        case TypeRoot.MAP:
            assert type_.key is not None
            assert type_.value is not None
            return st.lists(
                st.tuples(_values(type_.key), values(type_.value)), max_size=3, unique_by=lambda pair: repr(pair[0])
            )
        case _:
            return st.tuples(*(values(field.type) for field in type_.fields))


def _scaled(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60))


def _cut_time(millis: int, precision: int) -> int:
    return millis if precision > 0 else millis // 1000 * 1000


def _cut(found: tuple[int, int], precision: int) -> tuple[int, int]:
    millis, nanos = found
    if precision == 0:
        return millis // 1000 * 1000, 0
    if precision <= 3:
        return millis, 0
    return (millis, nanos // 1000 * 1000) if precision <= 6 else (millis, nanos)
