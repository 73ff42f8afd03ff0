"""Caches DataFusion plans for equal queries over objects with the same columns.

Reading a small object takes a fraction of the time to create a session and a plan. A cached plan contains no object:
each query inserts its own scan, runs the plan exclusively, and returns it at its end. The plan of a failed or stopped
query is discarded with its session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import datafusion
import pyarrow as pa

from lakebed.core.errors import LakebedError

from ..dialect.scalar_functions import register_functions
from ..model import SelectLimits
from .dataset import ScanDataset
from .query import TABLE, Query
from .scanning import BatchReader, Scan

MAX_PLANS: Final = 16
"""Limit of cached plans: a session takes about 80 KiB."""
MAX_RUNS: Final = 64
"""Runs per plan: DataFusion keeps metrics of each run, some KiB, as long as the plan exists."""
_STATELESS_STEPS: Final = frozenset(
    {"CooperativeExec", "DatasetExec", "EmptyExec", "FilterExec", "GlobalLimitExec", "LocalLimitExec", "ProjectionExec"}
)
"""Steps of a plan that keep no state between batches or runs."""
_TOTAL_AGGREGATE: Final = "AggregateExec: mode=Single, gby=[],"
"""The step that aggregates all records: it holds one row, which each run creates again."""


class PlanKey(NamedTuple):
    """The inputs of a plan. The SQL contains everything that request options change."""

    sql: str
    schema: pa.Schema


class PreparedPlan:
    """A plan with a slot for a scan. One query at a time runs it."""

    def __init__(self, key: PlanKey, limits: SelectLimits, errors: list[LakebedError]) -> None:
        """Raises DataFusion's errors for the SQL, after recording this package's errors in `errors`."""
        self.key = key
        self.errors = errors
        """Errors raised by this package in the current run."""
        self._slot = _ScanSlot(key.schema)
        self._runs = 0
        # A cacheable plan holds at most one batch, so it does not spill.
        self._context = open_session(limits, 1, None)
        # Not a bound method: DataFusion's references are not garbage collected, so a cycle would leak.
        register_functions(self._context, errors.append)
        self._context.register_dataset(TABLE, ScanDataset(self._slot, 1, errors.append, in_order=True))
        self._plan = plan_sql(self._context, key.sql).execution_plan()
        self._is_stateless = _is_stateless(self._plan)
        assert self._plan.partition_count == 1  # noqa: S101  # the session and the slot have one

    @property
    def is_reusable(self) -> bool:
        """Whether the plan has only known stateless steps, and has not reached its limit of runs."""
        return self._is_stateless and self._runs < MAX_RUNS

    def run(self, scan: Scan, threads: int) -> Any:
        """Batches of the result. The object may be read by `threads` threads."""
        self._runs += 1
        self._slot.fill(scan, threads)
        return self._context.execute(self._plan, 0)

    def clear(self) -> None:
        """Release the object."""
        self._slot.clear()
        self.errors.clear()


class PlanCache:
    """Idle plans, with the least recently used evicted first. Thread-safe."""

    def __init__(self, most: int = MAX_PLANS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._plans: list[PreparedPlan] = []

    def __len__(self) -> int:
        with self._lock:
            return len(self._plans)

    def take(self, key: PlanKey) -> PreparedPlan | None:
        """Remove and return a plan for the key; the caller has exclusive use until `put`."""
        with self._lock:
            for number, plan in enumerate(self._plans):
                if plan.key == key:
                    return self._plans.pop(number)
        return None

    def put(self, plan: PreparedPlan) -> None:
        """Cache a plan whose run has ended, if it can be reused."""
        plan.clear()
        if not plan.is_reusable:
            return
        with self._lock:
            self._plans.append(plan)
            del self._plans[: -self._most]


def open_session(limits: SelectLimits, partitions: int, spill: Path | None) -> datafusion.SessionContext:
    """A session with its own memory limit. Without `spill`, a query that exceeds it fails."""
    runtime = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(limits.memory_bytes)
    runtime = runtime.with_disk_manager_disabled() if spill is None else runtime.with_disk_manager_specified(spill)
    config = (
        datafusion.SessionConfig()
        .with_target_partitions(partitions)
        .with_information_schema(False)
        # Expressions have their own depth limit; DataFusion's default is lower than a rewritten expression may need.
        .set("datafusion.sql_parser.recursion_limit", "1000")
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    )
    return datafusion.SessionContext(config, runtime)


def plan_sql(context: datafusion.SessionContext, sql: str) -> datafusion.DataFrame:
    """Plan a read-only query in a session."""
    options = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return context.sql_with_options(sql, options)


def is_cacheable(query: Query, threads: int) -> bool:
    """Whether the plan of a query can be cached: it streams records, or aggregates all of them."""
    return query.is_streaming and (query.in_order or threads == 1)


def _is_stateless(plan: datafusion.ExecutionPlan) -> bool:
    step = plan.display().strip()
    known = step.partition(":")[0] in _STATELESS_STEPS or step.startswith(_TOTAL_AGGREGATE)
    return known and all(map(_is_stateless, plan.children()))


class _ScanSlot:
    """The scan of a cached plan, which delegates to the scan of the current query."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._condition: pa.compute.Expression | None = None
        self._current: tuple[Scan, int] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The available columns."""
        return self._schema

    def fill(self, scan: Scan, threads: int) -> None:
        """Set the scan of the current query."""
        self._current = (scan, threads)

    def clear(self) -> None:
        """Remove the scan."""
        self._current = None

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Store the condition, set when the plan is created, for the scan of each query."""
        self._condition = condition

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """One reader, of the scan that is current when it starts."""
        return [self._read]

    def stop(self) -> None:
        """Do nothing: each query stops its own scan."""

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        assert self._current is not None  # noqa: S101  # `run` fills the slot
        scan, threads = self._current
        scan.prune(self._condition)
        yield from scan.readers(threads, in_order=True)[0](columns)
