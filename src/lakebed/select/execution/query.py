"""Builds one DataFusion query from a statement and a relation, with the meaning of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlglot import exp

from ..dialect.binding import Binder, direction
from ..dialect.paths import FieldName, PathWildcard
from ..dialect.sql_text import BoundExpression, bound_field, quoted_name
from ..dialect.statement import Ordering, SelectStatement, is_aggregate
from ..dialect.syntax import chain, check_depth
from ..errors import SelectCode, failure
from .relation import Field, ReadAs, Relation, SqlKind

TABLE: Final = "s3object"
_PRUNING: Final = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the result."""

    label: str
    kind: SqlKind
    column: str
    present: str | None = None
    """The column that shows whether the field is present, if it may be missing."""


@dataclass(frozen=True, slots=True)
class Query:
    """A DataFusion query."""

    sql: str
    outputs: tuple[OutputColumn, ...]
    in_order: bool
    """Whether records keep their order: true unless they are aggregated, sorted or deduplicated."""
    is_streaming: bool
    """Whether at most one batch is in memory, besides total aggregates."""


def build_query(statement: SelectStatement, relation: Relation, now: datetime, *, named: bool) -> Query:
    """The query of a statement; `named` if the output has field names. Raises SelectError."""
    try:
        return _QueryBuilder(statement, relation, now, named=named).build()
    except RecursionError as error:
        raise failure(SelectCode.MAX_OPERATORS_EXCEEDED, "expression is nested too deeply") from error


class _QueryBuilder:
    def __init__(self, statement: SelectStatement, relation: Relation, now: datetime, *, named: bool) -> None:
        self._statement = statement
        self._relation = relation
        self._named = named
        self._selected: list[str] = []
        aliases = {
            projection.alias.casefold(): projection.node
            for projection in statement.projections
            if projection.alias is not None
        }
        self._binder = Binder(relation, now, row_names(statement), aliases)

    def build(self) -> Query:
        statement = self._statement
        self._check()
        if statement.projections:
            outputs = tuple(
                self._output(number, projection.alias, self._binder.bind(projection.node))
                for number, projection in enumerate(statement.projections, 1)
            )
        else:
            outputs = tuple(
                self._output(number, None, bound_field(self._relation, field))
                for number, field in enumerate(self._relation.fields(), 1)
            )
        distinct = "DISTINCT " if statement.distinct else ""
        clauses = [f"SELECT {distinct}{', '.join(self._selected)} FROM {TABLE}"]  # noqa: S608  # rendered by the binder
        if statement.where is not None:
            clauses.append("WHERE " + self._condition(statement.where))
        if statement.group:
            clauses.append("GROUP BY " + ", ".join(self._grouped(node) for node in statement.group))
        if statement.having is not None:
            clauses.append("HAVING " + self._binder.coerce.boolean(self._binder.bind(statement.having)).sql)
        if statement.order:
            clauses.append("ORDER BY " + ", ".join(self._ordered(ordering, outputs) for ordering in statement.order))
        if statement.limit is not None:
            clauses.append(f"LIMIT {statement.limit}")
        in_order = not (statement.aggregates or statement.order or statement.distinct)
        return Query(" ".join(clauses), outputs, in_order, self._is_streaming())

    def _check(self) -> None:
        statement = self._statement
        nodes = [
            *(projection.node for projection in statement.projections),
            *([] if statement.where is None else [statement.where]),
            *statement.group,
            *([] if statement.having is None else [statement.having]),
            *(ordering.node for ordering in statement.order),
        ]
        for node in nodes:
            check_depth(node)
        if statement.group or not statement.aggregates:
            return
        for projection in statement.projections:
            if not is_aggregate(projection.node) and next(projection.node.find_all(exp.Column), None) is not None:
                raise failure(
                    SelectCode.UNSUPPORTED_SQL_STRUCTURE,
                    "columns cannot be selected with aggregates without GROUP BY",
                )

    def _is_streaming(self) -> bool:
        statement = self._statement
        if statement.group or statement.order or statement.distinct:
            return False
        nodes = [projection.node for projection in statement.projections]
        nodes += [] if statement.having is None else [statement.having]
        return not any(node.find(exp.Window, exp.Distinct) for node in nodes)

    def _output(self, number: int, alias: str | None, bound: BoundExpression) -> OutputColumn:
        column = f"c{number}"
        if self._statement.distinct:
            # 1 and 1.0 are equal, and the sort keys are the selected values.
            bound = self._binder.coerce.inferred(bound)
        if (
            bound.kind is SqlKind.JSON
            and bound.field is not None
            and not self._named
            and not self._statement.aggregates
        ):
            # Formats without names write values as text.
            bound = bound_field(self._relation, bound.field, ReadAs.TEXT)
        self._selected.append(f"{bound.sql} AS {column}")
        label = alias or (bound.field.label if bound.field is not None else "") or f"_{number}"
        present = None
        if self._named and bound.field is not None and not self._statement.aggregates:
            present = self._present(number, bound.field)
        # A null literal has no type; its type does not matter in the output.
        kind = SqlKind.TEXT if bound.kind is SqlKind.NULL else bound.kind
        return OutputColumn(label, kind, column, present)

    def _present(self, number: int, field: Field) -> str | None:
        presence = self._relation.presence(field)
        if presence is None:
            return None
        self._selected.append(f"{quoted_name(presence)} AS p{number}")
        return f"p{number}"

    def _condition(self, where: exp.Expression) -> str:
        """The condition, wrapped so that only DataFusion evaluates it.

        A filter that is pushed down to a dataset is translated for Arrow, which may evaluate it differently: NOT IN is
        true of null. Comparisons that are safe for pruning are added separately.
        """
        condition = f"s3_holds({self._binder.coerce.boolean(self._binder.bind(where)).sql})"
        if self._relation.prunes:
            parts = chain(where) if isinstance(where, exp.And) else [where]
            condition = " AND ".join([condition, *(sql for part in parts for sql in self._pushed_down(part))])
        return condition

    def _pushed_down(self, node: exp.Expression) -> list[str]:
        """The SQL of a comparison between a field and a constant of the same kind; else empty."""
        if not isinstance(node, _PRUNING):
            return []
        sides = self._binder.bind_all([node.this, node.expression])
        kinds = {side.kind for side in sides}
        fields = [side for side in sides if side.field is not None]
        constants = [side for side in sides if side.constant is not None]
        if len(fields) != 1 or len(constants) != 1 or kinds not in ({SqlKind.INT}, {SqlKind.TEXT}):
            return []
        return [self._binder.bind(node).sql]

    def _grouped(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Literal):
            number = int(str(node.this)) if str(node.this).isdigit() else 0
            if not 1 <= number <= len(self._statement.projections):
                raise failure(SelectCode.INVALID_COLUMN_INDEX, f"no such column in the select list. found={node.this}")
            node = self._statement.projections[number - 1].node
        return self._binder.bind(node).sql

    def _ordered(self, ordering: Ordering, outputs: tuple[OutputColumn, ...]) -> str:
        node = ordering.node
        if self._statement.distinct and (selected := self._selected_as(node, outputs)) is not None:
            return selected + direction(ordering.descending, ordering.nulls_first)
        if isinstance(node, exp.Literal) and str(node.this).isdigit():
            number = int(str(node.this))
            if not 1 <= number <= len(outputs):
                raise failure(SelectCode.INVALID_COLUMN_INDEX, f"no such column in the select list. found={number}")
            return outputs[number - 1].column + direction(ordering.descending, ordering.nulls_first)
        # A copy: adding a node to a parent modifies it, and statements are shared.
        term = exp.Ordered(this=node.copy(), desc=ordering.descending, nulls_first=ordering.nulls_first)
        return self._binder.ordered(term, natural=not self._statement.aggregates)

    def _selected_as(self, node: exp.Expression, outputs: tuple[OutputColumn, ...]) -> str | None:
        """The result column of an expression: with DISTINCT, only selected columns can be sorted by."""
        if not self._statement.projections:
            field = self._binder.bind(node).field
            return next((each.column for each in outputs if field is not None and each.label == field.label), None)
        for projection, output in zip(self._statement.projections, outputs, strict=True):
            if projection.node == node or (isinstance(node, exp.Column) and node.name == projection.alias):
                return output.column
        return None


def row_names(statement: SelectStatement) -> tuple[FieldName, ...]:
    """The names of a record: its alias; else S3Object and the end of the path after FROM."""
    if statement.alias is not None:
        return (statement.alias,)
    names = [FieldName("S3Object")]
    if statement.source:
        last = statement.source[-1]
        if isinstance(last, FieldName):
            names.append(last)
        elif isinstance(last, PathWildcard):
            names.append(FieldName("_1"))
    return tuple(names)


__all__ = ["TABLE", "OutputColumn", "Query", "ReadAs", "build_query", "row_names"]
