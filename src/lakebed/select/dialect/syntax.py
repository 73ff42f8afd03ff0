"""Syntactic properties of parsed expressions: chains, depth, paths. `binding` resolves names."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from ..errors import SelectCode, failure
from .parser import MISSING_KEYWORD
from .paths import FieldName, Index, Path, Step

_MAX_DEPTH: Final = 64


def chain(node: exp.Expression) -> list[exp.Expression]:
    """The operands of a chain of one connector, in order, without recursion."""
    kind, waiting, found = type(node), [node], []
    while waiting:
        current = waiting.pop()
        if type(current) is kind:
            waiting += [current.expression, current.this]
        else:
            found.append(current)
    return found


def check_depth(node: exp.Expression) -> None:
    """Raise SelectError (MaxOperatorsExceeded) if the expression is nested too deeply for recursion."""
    waiting = [(node, 0)]
    while waiting:
        current, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "expression is nested too deeply")
        if isinstance(current, exp.And | exp.Or):
            parts = chain(current)
            waiting += [(part, depth + len(parts).bit_length()) for part in parts]
        else:
            waiting += [(child, depth + 1) for child in current.iter_expressions()]


def path_of(node: exp.Expression) -> Path:
    """The steps of a path expression. Raises SelectError (ParseInvalidPathComponent)."""
    steps: list[Step] = []
    current: object = node
    while True:
        match current:
            case exp.Dot():
                steps.append(_named(current.expression))
                current = current.this
            case exp.Bracket():
                steps.append(_indexed(current))
                current = current.this
            case exp.Column():
                return (*(_named(part) for part in current.parts), *reversed(steps))
            case exp.Identifier():
                return (_named(current), *reversed(steps))
            case _:
                raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "a path must begin with a name")


def _named(node: object) -> FieldName:
    if isinstance(node, exp.Identifier):
        return FieldName(str(node.this), bool(node.args.get("quoted")))
    if isinstance(node, exp.Column | exp.Var):
        return FieldName(node.name)
    raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "a name is expected in a path")


def _indexed(node: exp.Bracket) -> Step:
    inner = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(inner, exp.Literal):
        if inner.is_string:
            return FieldName(str(inner.this), quoted=True)
        if str(inner.this).isdigit():
            return Index(int(str(inner.this)))
    raise failure(SelectCode.PARSE_INVALID_PATH_COMPONENT, "a number or a name in quotes is expected in brackets")


def is_missing_keyword(node: exp.Column) -> bool:
    """Whether it is the keyword MISSING rather than a column of that name."""
    identifier = node.this
    return (
        len(node.parts) == 1
        and isinstance(identifier, exp.Identifier)
        and not identifier.args.get("quoted")
        and str(identifier.this).upper() == MISSING_KEYWORD
    )
