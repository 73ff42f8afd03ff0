from __future__ import annotations

import json

import pytest
from hypothesis import given

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.types import DataType, RowField, TypeRoot, parse_type, write_type

from .strategies import types


@given(types)
def test_type_survives_its_document(type_: DataType) -> None:
    assert parse_type(json.loads(json.dumps(write_type(type_)))) == type_


def test_nullability_is_written_only_if_false() -> None:
    assert write_type(DataType(TypeRoot.INT)) == {"type": "INTEGER"}
    assert write_type(DataType(TypeRoot.INT, is_nullable=False)) == {"type": "INTEGER", "nullable": False}


def test_omitted_type_parameters_have_defaults() -> None:
    assert parse_type({"type": "TIMESTAMP_WITHOUT_TIME_ZONE"}).precision == 6
    assert parse_type({"type": "TIME_WITHOUT_TIME_ZONE"}).precision == 0
    decimal = parse_type({"type": "DECIMAL"})
    assert (decimal.precision, decimal.scale) == (10, 0)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"type": "NUMBER"},
        {"type": "DECIMAL", "precision": 39, "scale": 0},
        {"type": "DECIMAL", "precision": 5, "scale": 6},
        {"type": "DECIMAL", "precision": "5"},
        {"type": "CHAR", "length": 0},
        {"type": "TIME_WITHOUT_TIME_ZONE", "precision": 10},
        {"type": "ARRAY"},
        {"type": "MAP", "key_type": {"type": "STRING"}},
        {"type": "ROW"},
        {"type": "ROW", "fields": []},
        {"type": "ROW", "fields": [{"field_type": {"type": "STRING"}}]},
    ],
)
def test_invalid_type_documents_are_rejected(document: object) -> None:
    with pytest.raises(FlussError) as failed:
        parse_type(document)
    assert failed.value.code is ErrorCode.INVALID_TABLE


def test_too_deeply_nested_type_is_rejected() -> None:
    document: dict[str, object] = {"type": "INTEGER"}
    for _ in range(100):
        document = {"type": "ARRAY", "element_type": document}
    with pytest.raises(FlussError, match="too deep"):
        parse_type(document)


def test_types_are_formatted_as_sql() -> None:
    row = DataType(TypeRoot.ROW, fields=(RowField("a", DataType(TypeRoot.INT, is_nullable=False)),))
    type_ = DataType(TypeRoot.MAP, key=DataType(TypeRoot.CHAR, length=3), value=DataType(TypeRoot.ARRAY, element=row))
    assert str(type_) == "MAP<CHAR(3), ARRAY<ROW<a INT NOT NULL>>>"
    assert str(DataType(TypeRoot.DECIMAL, precision=5, scale=2)) == "DECIMAL(5, 2)"
    assert str(DataType(TypeRoot.TIMESTAMP_LTZ, precision=3)) == "TIMESTAMP_LTZ(3)"
