"""Window functions: an extension of S3's dialect, as standard SQL has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sqlglot import exp

from ..errors import SelectCode, failure
from ..execution.relation import SqlKind
from .functions import AGGREGATES, ExpressionBinder, call
from .sql_text import BoundExpression

_READ: Final = frozenset({"this", "partition_by", "order", "spec", "over"})
_SPEC_READ: Final = frozenset({"kind", "start", "start_side", "end", "end_side"})


class WindowFunction(NamedTuple):
    """A function that is only for windows."""

    least: int
    most: int
    kind: SqlKind | None
    """What it gives; None for what its first argument is."""


WINDOW_FUNCTIONS: Final = {
    "ROW_NUMBER": WindowFunction(0, 0, SqlKind.INT),
    "RANK": WindowFunction(0, 0, SqlKind.INT),
    "DENSE_RANK": WindowFunction(0, 0, SqlKind.INT),
    "PERCENT_RANK": WindowFunction(0, 0, SqlKind.FLOAT),
    "CUME_DIST": WindowFunction(0, 0, SqlKind.FLOAT),
    "NTILE": WindowFunction(1, 1, SqlKind.INT),
    "LAG": WindowFunction(1, 3, None),
    "LEAD": WindowFunction(1, 3, None),
    "FIRST_VALUE": WindowFunction(1, 1, None),
    "LAST_VALUE": WindowFunction(1, 1, None),
    "NTH_VALUE": WindowFunction(2, 2, None),
}


def window(binder: ExpressionBinder, node: exp.Window, ordered: Callable[[exp.Expression], str]) -> BoundExpression:
    """`function OVER (…)`; `ordered` writes one term of an ORDER BY. Raises SelectError."""
    if any(value for name, value in node.args.items() if name not in _READ):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "OVER is followed by a window in brackets")
    function = node.this
    if not isinstance(function, exp.Anonymous):
        raise failure(SelectCode.UNSUPPORTED_SQL_OPERATION, "not a function that can be over a window")
    over = f" OVER ({_window(binder, node, ordered)})"
    name, arguments = str(function.this).upper(), list(function.expressions)
    if name in AGGREGATES:
        return binder.with_over(over, lambda: call(binder, name, arguments))
    known = WINDOW_FUNCTIONS.get(name)
    if known is None:
        raise failure(SelectCode.UNSUPPORTED_FUNCTION, f"no such function over a window. function={name}")
    if not known.least <= len(arguments) <= known.most:
        raise failure(SelectCode.EVALUATOR_INVALID_ARGUMENTS, f"the function takes other arguments. function={name}")
    bound = [binder.coerce.natural(argument) for argument in binder.bind_all(arguments)]
    if len(bound) == 3:
        bound[0], bound[2] = binder.coerce.same([bound[0], bound[2]])
    listed = ", ".join(argument.sql for argument in bound)
    if known.kind is SqlKind.INT:
        # DataFusion counts without a sign.
        return BoundExpression(f"CAST({name.lower()}({listed}){over} AS BIGINT)", SqlKind.INT)
    return BoundExpression(f"{name.lower()}({listed}){over}", known.kind or bound[0].kind)


def _window(binder: ExpressionBinder, node: exp.Window, ordered: Callable[[exp.Expression], str]) -> str:
    parts = []
    if partitions := node.args.get("partition_by"):
        keys = (binder.coerce.natural(binder.bind(each)).sql for each in partitions)
        parts.append("PARTITION BY " + ", ".join(keys))
    if order := node.args.get("order"):
        parts.append("ORDER BY " + ", ".join(ordered(each) for each in order.expressions))
    if spec := node.args.get("spec"):
        parts.append(_frame(spec))
    return " ".join(parts)


def _frame(spec: exp.Expression) -> str:
    if any(value for name, value in spec.args.items() if name not in _SPEC_READ):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "windows leave nothing out")
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, f"a window is of ROWS or a RANGE. found={kind}")
    start = _bound(spec.args.get("start"), spec.args.get("start_side"))
    if spec.args.get("end") is None:
        return f"{kind} {start}"
    return f"{kind} BETWEEN {start} AND {_bound(spec.args['end'], spec.args.get('end_side'))}"


def _bound(edge: object, side: object) -> str:
    towards = str(side or "").upper()
    if isinstance(edge, str) and edge.upper() == "CURRENT ROW":
        return "CURRENT ROW"
    if towards not in ("PRECEDING", "FOLLOWING"):
        raise failure(SelectCode.PARSE_UNEXPECTED_TOKEN, "a window begins and ends at rows before, at or after")
    if isinstance(edge, str) and edge.upper() == "UNBOUNDED":
        return f"UNBOUNDED {towards}"
    if isinstance(edge, exp.Literal) and not edge.is_string and str(edge.this).isdigit():
        return f"{int(str(edge.this))} {towards}"
    raise failure(SelectCode.PARSE_EXPECTED_NUMBER, "rows of a window are a whole number")
