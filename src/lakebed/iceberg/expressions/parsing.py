"""Parses expressions from JSON, in both dialects of the REST specification.

The older dialect names operands `term`, `value` and `values`, with columns as strings; the newer one `left`, `right`
and `child`, with columns as reference objects. A filter may use both. A chain of one conjunction is parsed as one list,
so that a filter of a thousand alternatives is not a thousand levels deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.iceberg.transforms import IDENTITY, Transform, parse_transform
from lakebed.iceberg.types import parse_primitive

from .unbound import (
    COMPARISONS,
    FALSE,
    SETS,
    TRUE,
    UNARY,
    And,
    ColumnReference,
    Expression,
    Literal,
    Not,
    Or,
    PredicateOperation,
    UnboundPredicate,
)

__all__ = ["parse_expression"]

_MAX_DEPTH: Final = 100
"""Levels of `not`, and of `and` within `or` within `and`."""
_MAX_PREDICATES: Final = 5_000
_MAX_LITERALS: Final = 100_000
_MAX_NUMBER_BITS: Final = 1024

_FUNCTIONS: Final = frozenset({IDENTITY, "year", "month", "day", "hour"})
_WIDE_FUNCTIONS: Final = frozenset({"bucket", "truncate"})
"""Functions whose first argument is the parameter of the transform, such as the number of buckets."""
_FUNCTION_CATALOG: Final = "iceberg_functions"

_MIRRORED: Final[Mapping[PredicateOperation, PredicateOperation]] = {
    PredicateOperation.LT: PredicateOperation.GT,
    PredicateOperation.GT: PredicateOperation.LT,
    PredicateOperation.LT_EQ: PredicateOperation.GT_EQ,
    PredicateOperation.GT_EQ: PredicateOperation.LT_EQ,
    PredicateOperation.EQ: PredicateOperation.EQ,
    PredicateOperation.NOT_EQ: PredicateOperation.NOT_EQ,
}
"""The operation with swapped operands: `5 < x` is `x > 5`."""


def parse_expression(document: object) -> Expression:
    """Parse a filter. Raises InvalidInput if it is invalid, NotSupported if planning does not support it."""
    return _Reader().expression(document, _MAX_DEPTH)


class _Reader:
    """The parser of one filter, with its counters."""

    def __init__(self) -> None:
        self._predicates = 0
        self._literals = 0

    def expression(self, document: object, depth: int) -> Expression:
        if isinstance(document, bool):
            return TRUE if document else FALSE
        if depth == 0:
            raise _refused(f"the filter is nested too deeply. maximum={_MAX_DEPTH}")
        fields = _object(document, "a predicate")
        kind = _type_of(fields)
        if kind in ("true", "false"):
            _allow(fields, kind)
            return TRUE if kind == "true" else FALSE
        if kind == "literal":
            value = fields.get("value")
            if not isinstance(value, bool):
                raise _refused("a literal predicate must be true or false")
            return TRUE if value else FALSE
        if kind in ("and", "or"):
            return self._chain(fields, kind, depth)
        if kind == "not":
            _allow(fields, kind, "child")
            return Not(self.expression(_required(fields, "child", kind), depth - 1))
        self._predicates += 1
        if self._predicates > _MAX_PREDICATES:
            raise _refused(f"the filter has too many predicates. maximum={_MAX_PREDICATES}")
        predicate = _predicate(kind, fields)
        self._literals += len(predicate.literals)
        if self._literals > _MAX_LITERALS:
            raise _refused(f"the filter has too many values. maximum={_MAX_LITERALS}")
        return predicate

    def _chain(self, fields: Mapping[str, object], kind: str, depth: int) -> Expression:
        """The operands of nested conjunctions of one kind, in order."""
        operands: list[Expression] = []
        waiting: list[object] = [fields]
        while waiting:
            document = waiting.pop()
            if isinstance(document, Mapping) and document.get("type") == kind:
                inner = _object(document, "a predicate")
                _allow(inner, kind, "left", "right")
                waiting += [_required(inner, "right", kind), _required(inner, "left", kind)]
            else:
                operands.append(self.expression(document, depth - 1))
        return And(tuple(operands)) if kind == "and" else Or(tuple(operands))


def _predicate(kind: str, fields: Mapping[str, object]) -> UnboundPredicate:
    try:
        operation = PredicateOperation(kind.replace("_", "-").lower())
    except ValueError:
        raise _refused(f"no such predicate. type={kind[:80]}") from None
    if operation in UNARY:
        return UnboundPredicate(operation, _operand(fields, kind, "child"))
    if operation in SETS:
        operand = _operand(fields, kind, "child", "values")
        return UnboundPredicate(operation, operand, _literals(_required(fields, "values", kind)))
    return _comparison(operation, kind, fields)


def _operand(fields: Mapping[str, object], kind: str, name: str, *others: str) -> ColumnReference:
    if "term" in fields:
        _allow(fields, kind, "term", *others)
        return _term(fields["term"])
    _allow(fields, kind, name, *others)
    return _value_reference(_required(fields, name, kind), kind)


def _comparison(operation: PredicateOperation, kind: str, fields: Mapping[str, object]) -> UnboundPredicate:
    assert operation in COMPARISONS  # noqa: S101  # the caller handles other operations
    if "term" in fields or "value" in fields:
        _allow(fields, kind, "term", "value")
        return UnboundPredicate(
            operation, _term(_required(fields, "term", kind)), (_literal(_required(fields, "value", kind)),)
        )
    _allow(fields, kind, "left", "right")
    left, right = _required(fields, "left", kind), _required(fields, "right", kind)
    if _is_value(left) and not _is_value(right):
        if operation not in _MIRRORED:
            raise NotSupported(f"{kind} is supported only with the column on the left")
        left, right, operation = right, left, _MIRRORED[operation]
    if not _is_value(right):
        raise NotSupported(f"{kind} is supported only between a column and a literal")
    return UnboundPredicate(operation, _value_reference(left, kind), (_literal(right),))


def _is_value(document: object) -> bool:
    return not isinstance(document, Mapping) or document.get("type") == "literal"


def _term(document: object) -> ColumnReference:
    """A column in the older dialect: its name, or a transform of it."""
    if isinstance(document, str):
        return ColumnReference(document)
    fields = _object(document, "a term")
    kind = _type_of(fields)
    if kind == "reference":
        return _reference(fields)
    if kind != "transform":
        raise _refused(f"a term must be a column or a transform of a column. type={kind[:80]}")
    _allow(fields, kind, "transform", "term")
    source = _term(_required(fields, "term", kind))
    if source.transform is not None:
        raise NotSupported("nested transforms are not supported")
    text = _required(fields, "transform", kind)
    if not isinstance(text, str):
        raise _refused("a transform must be a string")
    return ColumnReference(source.column, _known(parse_transform(text)))


def _value_reference(document: object, kind: str) -> ColumnReference:
    """A column in the newer dialect: a reference, or a function of one."""
    if _is_value(document):
        raise _refused(f"{kind} requires a column: a reference or a function of one")
    fields = _object(document, "an operand")
    inner = _type_of(fields)
    if inner == "reference":
        return _reference(fields)
    if inner == "apply":
        return _apply(fields)
    raise _refused(f"an operand must be a reference, a function or a literal. type={inner[:80]}")


def _reference(fields: Mapping[str, object]) -> ColumnReference:
    _allow(fields, "reference", "name", "id", "term")
    given = [fields[name] for name in ("name", "id", "term") if name in fields]
    if len(given) != 1:
        raise _refused("a reference must have either a name or an id")
    column = given[0]
    if isinstance(column, bool) or not isinstance(column, int if "id" in fields else str):
        raise _refused("a reference's name must be a string, its id a number")
    assert isinstance(column, int | str)  # noqa: S101  # for mypy
    return ColumnReference(column)


def _apply(fields: Mapping[str, object]) -> ColumnReference:
    _allow(fields, "apply", "function", "arguments")
    name = _function_name(_required(fields, "function", "apply"))
    arguments = _required(fields, "arguments", "apply")
    if not isinstance(arguments, list):
        raise _refused("the arguments of a function must be a list")
    text = name
    if name in _WIDE_FUNCTIONS and len(arguments) == 2:
        width = arguments[0]
        if isinstance(width, Mapping) and width.get("type") == "literal":
            width = width.get("value")
        if isinstance(width, bool) or not isinstance(width, int):
            raise _refused(f"the first argument of {name} must be a whole number")
        text = f"{name}[{width}]"
        arguments = arguments[1:]
    elif name not in _FUNCTIONS:
        raise NotSupported(f"the function is not supported in filters. function={name[:80]}")
    if len(arguments) != 1:
        raise _refused(f"{name} has a wrong number of arguments")
    source = _value_reference(arguments[0], name)
    if source.transform is not None:
        raise NotSupported("nested functions are not supported")
    return ColumnReference(source.column, _known(parse_transform(text)))


def _function_name(document: object) -> str:
    """The name of a function of the specification's function catalog; other functions are engine-specific."""
    catalog: object = None
    if isinstance(document, Mapping):
        catalog, document = document.get("catalog"), document.get("identifier")
    if isinstance(document, str):
        document = [document]
    if not isinstance(document, list) or not document or not all(isinstance(part, str) for part in document):
        raise _refused("a function name must be a string or a list of strings")
    if len(document) > 1 or catalog not in (None, _FUNCTION_CATALOG):
        raise NotSupported(f"the function is not supported in filters. function={'.'.join(document)[:80]}")
    return str(document[0]).lower()


def _known(transform: Transform) -> Transform | None:
    if transform.family is None:
        raise _refused(f"unknown transform. transform={transform.text[:80]}")
    return None if transform.family == IDENTITY else transform


def _literals(document: object) -> tuple[Literal, ...]:
    if isinstance(document, Mapping):
        if document.get("type") != "literals":
            raise _refused("values must be a list of literals")
        _allow(document, "literals", "values", "data-type")
        values = document.get("values")
        if not isinstance(values, list):
            raise _refused("values must be a list of literals")
        kind = document.get("data-type")
        return tuple(_literal({"type": "literal", "value": value, "data-type": kind}) for value in values)
    if not isinstance(document, list):
        raise _refused("values must be a list of literals")
    return tuple(map(_literal, document))


def _literal(document: object) -> Literal:
    kind: object = None
    if isinstance(document, Mapping):
        if document.get("type") != "literal":
            raise _refused("expected a literal")
        _allow(document, "literal", "value", "data-type")
        kind, document = document.get("data-type"), document.get("value")
    if not isinstance(document, bool | int | float | str):
        raise _refused("a literal must be a string, a number, true or false; use is-null for null")
    if isinstance(document, int) and document.bit_length() > _MAX_NUMBER_BITS:
        raise _refused("a literal has more digits than any column type")
    if kind is not None and not isinstance(kind, str):
        raise _refused("the data-type of a literal must be a primitive type")
    return Literal(document, None if kind is None else parse_primitive(kind))


def _object(document: object, what: str) -> Mapping[str, object]:
    if not isinstance(document, Mapping):
        raise _refused(f"expected {what}, an object with a type")
    return document


def _type_of(fields: Mapping[str, object]) -> str:
    kind = fields.get("type")
    if not isinstance(kind, str):
        raise _refused("every part of a filter requires a type")
    return kind.lower()


def _required(fields: Mapping[str, object], name: str, kind: str) -> object:
    if name not in fields:
        raise _refused(f"{kind} requires the field {name}")
    return fields[name]


def _allow(fields: Mapping[str, object], kind: str, *names: str) -> None:
    """Raise InvalidInput for unknown fields: a misspelt one would silently widen the filter."""
    unknown = fields.keys() - {"type", *names}
    if unknown:
        raise _refused(f"{kind[:80]} has an unknown field. field={min(unknown)[:80]}")


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, argument="filter")
