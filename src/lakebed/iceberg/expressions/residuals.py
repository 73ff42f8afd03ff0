"""Residuals: the part of a filter that still has to be applied to the rows of one partition.

A predicate that all rows of the partition match is true, one that no row matches is false; readers apply the others. If
the residual is false, the partition has no matching rows.
"""

from __future__ import annotations

from .bound import BoundExpression, BoundPredicate, evaluate, predicate_matches, rewrite
from .partitions import BoundSpec, PartitionValues, partition_key
from .projection import project_inclusive, project_strict
from .unbound import FALSE, TRUE

__all__ = ["ResidualEvaluator"]


class ResidualEvaluator:
    """The residuals of one filter over the partitions of one spec, cached by partition."""

    def __init__(self, condition: BoundExpression, layout: BoundSpec) -> None:
        self._condition = condition
        self._layout = layout
        self._known: dict[tuple[object, ...], BoundExpression] = {}
        self._projections: dict[BoundPredicate, tuple[BoundExpression, BoundExpression]] = {}

    def of(self, partition: PartitionValues) -> BoundExpression:
        """The residual of the filter for a partition."""
        if not self._layout.is_partitioned:
            return self._condition
        key = partition_key(partition)
        residual = self._known.get(key)
        if residual is None:
            residual = self._known[key] = rewrite(
                self._condition, lambda predicate: self._left_of(predicate, partition)
            )
        return residual

    def _left_of(self, predicate: BoundPredicate, partition: PartitionValues) -> BoundExpression:
        projections = self._projections.get(predicate)
        if projections is None:
            projections = project_strict(predicate, self._layout), project_inclusive(predicate, self._layout)
            self._projections[predicate] = projections
        strict, inclusive = projections

        def passes(projected: BoundPredicate) -> bool:
            return predicate_matches(projected, partition[self._layout.positions[projected.term.id]])

        if evaluate(strict, passes):
            return TRUE
        return predicate if evaluate(inclusive, passes) else FALSE
