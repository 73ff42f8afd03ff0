"""What is left of a filter for the rows of one partition.

A claim that all rows of the partition pass is true, one that none can pass is false; the others stay for the reader to
apply. A filter whose residual is false has no rows in the partition.
"""

from __future__ import annotations

from .bound import BoundExpression, BoundPredicate, evaluate, predicate_matches, rewrite
from .partitions import BoundSpec, PartitionValues, partition_key
from .projection import project_inclusive, project_strict
from .unbound import FALSE, TRUE

__all__ = ["ResidualEvaluator"]


class ResidualEvaluator:
    """The residuals of one filter over the partitions of one spec. Each partition's is worked out once."""

    def __init__(self, condition: BoundExpression, layout: BoundSpec) -> None:
        self._condition = condition
        self._layout = layout
        self._known: dict[tuple[object, ...], BoundExpression] = {}
        self._projections: dict[BoundPredicate, tuple[BoundExpression, BoundExpression]] = {}

    def of(self, partition: PartitionValues) -> BoundExpression:
        """What is left of the filter for the rows of this partition."""
        if not self._layout.is_partitioned:
            return self._condition
        key = partition_key(partition)
        residual = self._known.get(key)
        if residual is None:
            residual = self._known[key] = rewrite(self._condition, lambda claim: self._left_of(claim, partition))
        return residual

    def _left_of(self, claim: BoundPredicate, partition: PartitionValues) -> BoundExpression:
        projections = self._projections.get(claim)
        if projections is None:
            projections = project_strict(claim, self._layout), project_inclusive(claim, self._layout)
            self._projections[claim] = projections
        strict, inclusive = projections

        def passes(projected: BoundPredicate) -> bool:
            return predicate_matches(projected, partition[self._layout.positions[projected.term.id]])

        if evaluate(strict, passes):
            return TRUE
        return claim if evaluate(inclusive, passes) else FALSE
