"""JSON schemas of row filters and column masks, for editors and tools.

They accept what `restrictions` accepts, except for size limits and SQL conditions. Validation uses `restrictions`,
whose errors are clearer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.iceberg.expressions.unbound import PredicateOperation

from .column_masks import MAX_SALT_CHARS, MAX_SHOWN, MaskKind
from .restrictions import COLUMN_MASK, ROW_FILTER, SCHEMA_VERSION

_Schema = dict[str, Any]  # Any: JSON

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_EXPRESSION: Final[_Schema] = {"$ref": "#/$defs/expression"}
_TERM: Final[_Schema] = {"type": "string", "minLength": 1}
_VALUE: Final[_Schema] = {"type": ["string", "number", "boolean"]}
_NAMES: Final[_Schema] = {"type": "array", "items": {"type": "string", "minLength": 1}}
_UNARY: Final = (
    PredicateOperation.IS_NULL,
    PredicateOperation.NOT_NULL,
    PredicateOperation.IS_NAN,
    PredicateOperation.NOT_NAN,
)
_TEXTS: Final = (PredicateOperation.STARTS_WITH, PredicateOperation.NOT_STARTS_WITH)
_SETS: Final = (PredicateOperation.IN, PredicateOperation.NOT_IN)
_OTHERS: Final = tuple(one for one in PredicateOperation if one not in (*_UNARY, *_TEXTS, *_SETS))


def _object(required: Mapping[str, _Schema], **optional: _Schema) -> _Schema:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _typed(types: tuple[str, ...], **fields: _Schema) -> _Schema:
    return _object({"type": {"enum": list(types)}, **fields})


_EXPRESSIONS: Final[_Schema] = {
    "oneOf": [
        {"type": "boolean"},
        _typed(("and", "or"), left=_EXPRESSION, right=_EXPRESSION),
        _typed(("not",), child=_EXPRESSION),
        _typed(_UNARY, term=_TERM),
        _typed(_OTHERS, term=_TERM, value=_VALUE),
        _typed(_TEXTS, term=_TERM, value={"type": "string"}),
        _typed(_SETS, term=_TERM, values={"type": "array", "items": _VALUE, "minItems": 1}),
    ]
}

_COUNT: Final[_Schema] = {"type": "integer", "minimum": 0, "maximum": MAX_SHOWN}
_SHOWN: Final[_Schema] = {"type": "integer", "minimum": 1}
_MASKS: Final[_Schema] = {
    "oneOf": [
        {"enum": [MaskKind.NULL, MaskKind.HASH, MaskKind.YEAR]},
        _object({"mask": {"enum": [MaskKind.NULL, MaskKind.YEAR]}}),
        _object({"mask": {"const": MaskKind.CONSTANT}, "value": _VALUE}),
        _object({"mask": {"const": MaskKind.HASH}}, salt={"type": "string", "maxLength": MAX_SALT_CHARS}),
        {
            **_object({"mask": {"const": MaskKind.PARTIAL}}, first=_COUNT, last=_COUNT),
            "anyOf": [{"properties": {end: _SHOWN}, "required": [end]} for end in ("first", "last")],
        },
    ]
}

_RESTRICTS: Final[_Schema] = {
    **_object(
        {},
        **{
            "everyone": {"type": "boolean"},
            "principals": _NAMES,
            "principal-roles": _NAMES,
            "except-principals": _NAMES,
            "except-principal-roles": _NAMES,
        },
    ),
    "anyOf": [
        {"properties": {"everyone": {"const": True}}, "required": ["everyone"]},
        *({"properties": {key: {"minItems": 1}}, "required": [key]} for key in ("principals", "principal-roles")),
    ],
}


def _content(body: Mapping[str, _Schema], **definitions: _Schema) -> _Schema:
    return {
        "$schema": _DIALECT,
        **_object(
            {"enable": {"type": "boolean"}, "restricts": _RESTRICTS, **body},
            version={"enum": [SCHEMA_VERSION, "", None]},
        ),
        **({"$defs": definitions} if definitions else {}),
    }


CONTENT_SCHEMAS: Final[Mapping[str, _Schema]] = {
    ROW_FILTER: _content({"filter": {"anyOf": [_EXPRESSION, {"type": "string"}]}}, expression=_EXPRESSIONS),
    COLUMN_MASK: _content(
        {
            "columns": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"minLength": 1},
                "additionalProperties": _MASKS,
            }
        }
    ),
}
"""By policy type."""
