"""Filters as JSON, for clients to apply to the rows of a file.

Written in the older dialect of the contract: readers of the newer one understand it too, and not the other way round.
Columns are named; values are single values of their column's type.
"""

from __future__ import annotations

from collections.abc import Sequence

from .expressions import SETS, UNARY, Constant
from .predicates import AllOf, Claim, Filter, Term
from .values import to_json

__all__ = ["render_filter"]


def render_filter(condition: Filter) -> object:
    """The filter as plain values that any JSON encoder writes."""
    if isinstance(condition, Constant):
        return condition.value
    if isinstance(condition, Claim):
        return _test(condition)
    return _balanced("and" if isinstance(condition, AllOf) else "or", condition.operands)


def _balanced(kind: str, operands: Sequence[Filter]) -> object:
    """A tree of pairs: as shallow as can be, because many a JSON reader has a limit of depth."""
    if len(operands) == 1:
        return render_filter(operands[0])
    middle = len(operands) // 2
    return {"type": kind, "left": _balanced(kind, operands[:middle]), "right": _balanced(kind, operands[middle:])}


def _test(claim: Claim) -> object:
    document: dict[str, object] = {"type": claim.operation.value, "term": _term(claim.term)}
    if claim.operation in SETS:
        document["values"] = [to_json(claim.term.kind, literal) for literal in claim.literals]
    elif claim.operation not in UNARY:
        document["value"] = to_json(claim.term.kind, claim.literal)
    return document


def _term(term: Term) -> object:
    if term.transform is None:
        return term.name
    return {"type": "transform", "transform": term.transform.text, "term": term.name}
