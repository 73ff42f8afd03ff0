"""Builds columns from values without a schema: paths into them, as text, numbers, booleans or JSON.

A sample decides the kind of a field, which only affects comparisons and arithmetic. A later value of another kind is
null where a number is required, and unchanged in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from ..dialect.paths import MISSING, FieldName, Path, Step, follow
from ..errors import SelectCode, failure, nested_too_deeply
from ..execution.relation import Field, ReadAs, ScanColumn, SqlKind

_PREFIX: Final = {ReadAs.ANY: "a", ReadAs.TEXT: "t", ReadAs.NUMBER: "n", ReadAs.FLOAT: "f", ReadAs.BOOL: "b"}
_PRESENT: Final = "p"


def _plain(value: object) -> object:
    """Convert a value that JSON cannot represent."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    raise TypeError(f"no JSON representation. type={type(value).__name__}")


_encoder: Final = msgspec.json.Encoder(enc_hook=_plain, decimal_format="number")


def to_json(value: object) -> str:
    """A value as JSON. Raises SelectError if it is nested too deeply."""
    try:
        return _encoder.encode(value).decode()
    except RecursionError as error:
        raise nested_too_deeply() from error


def to_text(value: object) -> str:
    """A value as text: JSON, but strings without quotes."""
    if isinstance(value, str):
        return value
    text = to_json(value)
    # Dates and similar values are strings in JSON.
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


@dataclass(frozen=True, slots=True)
class RequestedColumn:
    """A requested column."""

    path: Path
    kind: SqlKind
    """The field's kind in the sample."""
    view: ReadAs | None
    """None for the presence column."""
    type: pa.DataType


class ValueColumns:
    """The columns that a query requests of values, built for each block."""

    def __init__(self, sample: Sequence[object]) -> None:
        self._sample = sample
        self._paths: dict[Path, int] = {}
        self._requested: dict[str, RequestedColumn] = {}

    def field(self, path: Path, label: str = "") -> Field:
        """The field at a path, with its name as in the sample. Raises SelectError (AmbiguousFieldName)."""
        exact = self._resolve(path)
        last = exact[-1] if exact else None
        return Field(last.text if isinstance(last, FieldName) else label, self._kind(exact), exact)

    def in_sample(self, path: Path) -> bool:
        """Whether the sample has the field."""
        return any(follow(value, path) is not MISSING for value in self._sample)

    def column(self, field: Field, view: ReadAs) -> ScanColumn:
        """Request a field with a view."""
        kind = {ReadAs.ANY: SqlKind.JSON, ReadAs.TEXT: SqlKind.TEXT, ReadAs.BOOL: SqlKind.BOOL}.get(view)
        if kind is None:
            kind = SqlKind.INT if view is ReadAs.NUMBER and field.kind is SqlKind.INT else SqlKind.FLOAT
        name = f"{_PREFIX[view]}{self._number(field.path)}"
        types = {SqlKind.BOOL: pa.bool_(), SqlKind.INT: pa.int64(), SqlKind.FLOAT: pa.float64()}
        self._requested[name] = RequestedColumn(field.path, field.kind, view, types.get(kind, pa.string()))
        return ScanColumn(name, kind)

    def presence(self, field: Field) -> str:
        """Request the column that shows whether a field is present."""
        name = f"{_PRESENT}{self._number(field.path)}"
        self._requested[name] = RequestedColumn(field.path, field.kind, None, pa.bool_())
        return name

    @property
    def schema_fields(self) -> list[tuple[str, pa.DataType]]:
        """The columns requested so far."""
        return [(name, requested.type) for name, requested in self._requested.items()]

    def has(self, name: str) -> bool:
        """Whether the column was requested."""
        return name in self._requested

    def requested(self, name: str) -> RequestedColumn:
        """A requested column."""
        return self._requested[name]

    def paths(self, names: list[str]) -> dict[Path, list[str]]:
        """The columns by path, so that each path is followed once."""
        found: dict[Path, list[str]] = {}
        for name in names:
            found.setdefault(self._requested[name].path, []).append(name)
        return found

    def array(self, name: str, values: Sequence[object]) -> pa.Array:
        """A column from the values at its path. Raises SelectError (InvalidDataType)."""
        requested = self._requested[name]
        make: Callable[[Any], object]
        match requested.view:
            case None:
                return pa.array([value is not MISSING for value in values], requested.type)
            case ReadAs.ANY:
                make = to_json
            case ReadAs.TEXT:
                make = to_text
            case ReadAs.BOOL:
                make = _boolean
            case ReadAs.NUMBER | ReadAs.FLOAT:
                make = _integer if pa.types.is_integer(requested.type) else _float
        return pa.array(
            [None if value is None or value is MISSING else make(value) for value in values], requested.type
        )

    def _number(self, path: Path) -> int:
        return self._paths.setdefault(path, len(self._paths))

    def _resolve(self, path: Path) -> Path:
        """The path with the names of the sample, for steps that match case-insensitively."""
        exact: list[Step] = []
        values: list[object] = list(self._sample)
        for step in path:
            if isinstance(step, FieldName) and not step.quoted:
                found = {name for value in values if isinstance(value, dict) for name in value if step.matches(name)}
                if len(found) > 1 and step.text not in found:
                    raise failure(SelectCode.AMBIGUOUS_FIELD_NAME, f"ambiguous field name. name={step.text}")
                if found:
                    step = FieldName(step.text if step.text in found else found.pop(), quoted=True)
            exact.append(step)
            values = [inner for value in values if (inner := follow(value, (step,))) is not MISSING]
        return tuple(exact)

    def _kind(self, path: Path) -> SqlKind:
        kinds = {_kind_of(follow(value, path)) for value in self._sample} - {SqlKind.NULL}
        if kinds == {SqlKind.INT, SqlKind.FLOAT}:
            return SqlKind.FLOAT
        return kinds.pop() if len(kinds) == 1 else SqlKind.JSON


def _kind_of(value: object) -> SqlKind:
    match value:
        case None:
            return SqlKind.NULL
        case bool():
            return SqlKind.BOOL
        case int():
            return SqlKind.INT if -(2**63) <= value < 2**63 else SqlKind.FLOAT
        case float():
            return SqlKind.FLOAT
        case str():
            return SqlKind.TEXT
        case _:
            return SqlKind.NULL if value is MISSING else SqlKind.JSON


def _boolean(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    if (isinstance(value, float) and number != value) or not -(2**63) <= number < 2**63:
        raise failure(
            SelectCode.INVALID_DATA_TYPE,
            f"field has integers in the sample, but not here: cast it to FLOAT. value={value}",
        )
    return number
