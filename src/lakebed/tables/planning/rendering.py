"""Filters as JSON, for clients to apply to the rows of a file.

Written in the older dialect of the contract: readers of the newer one understand it too, and not the other way round.
Columns are named; values are single values of their column's type.
"""

from __future__ import annotations

from collections.abc import Sequence

from .expressions import SETS, UNARY, Constant
from .predicates import AllOf, Filter, Term, Test
from .values import to_json

__all__ = ["render_filter"]


def render_filter(condition: Filter) -> object:
    """The filter as plain values that any JSON encoder writes."""
    if isinstance(condition, Constant):
        return condition.value
    if isinstance(condition, Test):
        return _test(condition)
    return _balanced("and" if isinstance(condition, AllOf) else "or", condition.operands)


def _balanced(kind: str, operands: Sequence[Filter]) -> object:
    """A tree of pairs: as shallow as can be, because many a JSON reader has a limit of depth."""
    if len(operands) == 1:
        return render_filter(operands[0])
    middle = len(operands) // 2
    return {"type": kind, "left": _balanced(kind, operands[:middle]), "right": _balanced(kind, operands[middle:])}


def _test(test: Test) -> object:
    document: dict[str, object] = {"type": test.operation.value, "term": _term(test.term)}
    if test.operation in SETS:
        document["values"] = [to_json(test.term.kind, literal) for literal in test.literals]
    elif test.operation not in UNARY:
        document["value"] = to_json(test.term.kind, test.literal)
    return document


def _term(term: Term) -> object:
    if term.transform is None:
        return term.name
    return {"type": "transform", "transform": term.transform.text, "term": term.name}
