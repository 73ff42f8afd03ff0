"""Window functions as in standard SQL, an extension of S3's dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from sqlglot import exp

from ..errors import SelectCode, failure
from ..execution.relation import SqlKind
from .functions import AGGREGATES, ExpressionBinder, call
from .sql_text import BoundExpression

_SUPPORTED: Final = frozenset({"this", "partition_by", "order", "spec", "over"})
_SUPPORTED_IN_FRAME: Final = frozenset({"kind", "start", "start_side", "end", "end_side"})


class WindowFunction(NamedTuple):
    """A function that is only allowed with OVER."""

    least: int
    most: int
    kind: SqlKind | None
    """The kind of its result; None for that of its first argument."""


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
    """`function OVER (…)`; `ordered` renders an ORDER BY term. Raises SelectError."""
    if any(value for name, value in node.args.items() if name not in _SUPPORTED):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "OVER requires a window in brackets")
    function = node.this
    if not isinstance(function, exp.Anonymous):
        raise failure(SelectCode.UNSUPPORTED_SQL_OPERATION, "expression is not a window function")
    over = f" OVER ({_window(binder, node, ordered)})"
    name, arguments = str(function.this).upper(), list(function.expressions)
    if name in AGGREGATES:
        return binder.with_over(over, lambda: call(binder, name, arguments))
    known = WINDOW_FUNCTIONS.get(name)
    if known is None:
        raise failure(SelectCode.UNSUPPORTED_FUNCTION, f"unknown window function. function={name}")
    if not known.least <= len(arguments) <= known.most:
        raise failure(SelectCode.EVALUATOR_INVALID_ARGUMENTS, f"wrong number of arguments. function={name}")
    bound = [binder.coerce.inferred(argument) for argument in binder.bind_all(arguments)]
    if len(bound) == 3:
        bound[0], bound[2] = binder.coerce.common_kind([bound[0], bound[2]])
    listed = ", ".join(argument.sql for argument in bound)
    if known.kind is SqlKind.INT:
        # DataFusion returns unsigned integers.
        return BoundExpression(f"CAST({name.lower()}({listed}){over} AS BIGINT)", SqlKind.INT)
    return BoundExpression(f"{name.lower()}({listed}){over}", known.kind or bound[0].kind)


def _window(binder: ExpressionBinder, node: exp.Window, ordered: Callable[[exp.Expression], str]) -> str:
    parts = []
    if partitions := node.args.get("partition_by"):
        keys = (binder.coerce.inferred(binder.bind(each)).sql for each in partitions)
        parts.append("PARTITION BY " + ", ".join(keys))
    if order := node.args.get("order"):
        parts.append("ORDER BY " + ", ".join(ordered(each) for each in order.expressions))
    if spec := node.args.get("spec"):
        parts.append(_frame(spec))
    return " ".join(parts)


def _frame(spec: exp.Expression) -> str:
    if any(value for name, value in spec.args.items() if name not in _SUPPORTED_IN_FRAME):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, "EXCLUDE in windows is not supported")
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise failure(SelectCode.UNSUPPORTED_SQL_STRUCTURE, f"a window frame must be ROWS or RANGE. found={kind}")
    start = _bound(spec.args.get("start"), spec.args.get("start_side"))
    if spec.args.get("end") is None:
        return f"{kind} {start}"
    return f"{kind} BETWEEN {start} AND {_bound(spec.args['end'], spec.args.get('end_side'))}"


def _bound(edge: object, side: object) -> str:
    direction = str(side or "").upper()
    if isinstance(edge, str) and edge.upper() == "CURRENT ROW":
        return "CURRENT ROW"
    if direction not in ("PRECEDING", "FOLLOWING"):
        raise failure(SelectCode.PARSE_UNEXPECTED_TOKEN, "a window bound must be PRECEDING, CURRENT ROW or FOLLOWING")
    if isinstance(edge, str) and edge.upper() == "UNBOUNDED":
        return f"UNBOUNDED {direction}"
    if isinstance(edge, exp.Literal) and not edge.is_string and str(edge.this).isdigit():
        return f"{int(str(edge.this))} {direction}"
    raise failure(SelectCode.PARSE_EXPECTED_NUMBER, "a window bound must be an integer")
