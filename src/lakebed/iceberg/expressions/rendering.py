"""Serializes bound expressions as JSON, for clients to apply as residual filters.

Uses the older dialect, which readers of the newer one understand too. Columns are written by name, literals as single
values of the column's type.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..values import to_json
from .bound import BoundAnd, BoundExpression, BoundPredicate, BoundTerm
from .unbound import SETS, UNARY, Constant

__all__ = ["render_filter"]


def render_filter(condition: BoundExpression) -> object:
    """The filter as plain JSON values."""
    if isinstance(condition, Constant):
        return condition.value
    if isinstance(condition, BoundPredicate):
        return _test(condition)
    return _balanced("and" if isinstance(condition, BoundAnd) else "or", condition.operands)


def _balanced(kind: str, operands: Sequence[BoundExpression]) -> object:
    """A balanced tree of pairs: many JSON parsers limit the depth."""
    if len(operands) == 1:
        return render_filter(operands[0])
    middle = len(operands) // 2
    return {"type": kind, "left": _balanced(kind, operands[:middle]), "right": _balanced(kind, operands[middle:])}


def _test(predicate: BoundPredicate) -> object:
    document: dict[str, object] = {"type": predicate.operation.value, "term": _term(predicate.term)}
    if predicate.operation in SETS:
        document["values"] = [to_json(predicate.term.kind, literal) for literal in predicate.literals]
    elif predicate.operation not in UNARY:
        document["value"] = to_json(predicate.term.kind, predicate.literal)
    return document


def _term(term: BoundTerm) -> object:
    if term.transform is None:
        return term.name
    return {"type": "transform", "transform": term.transform.text, "term": term.name}
