"""Plans of DataFusion that outlive a query, for the next one that asks the same of an object with the same columns.

A small object is read in a fraction of the time that it takes to make a session and a plan. What is kept knows of no
object: each query puts its own into the plan's place, runs by it alone, and gives it back when it came to its end. One
that failed or was stopped is thrown away, session and all.
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
"""At most: a session takes some 80 KiB."""
MAX_RUNS: Final = 64
"""Of one plan: DataFusion measures each, and remembers what it measured, some KiB, for as long as there is the plan."""
_PASSING: Final = frozenset(
    {"CooperativeExec", "DatasetExec", "EmptyExec", "FilterExec", "GlobalLimitExec", "LocalLimitExec", "ProjectionExec"}
)
"""Steps of a plan that hold nothing between batches, and nothing between runs."""
_TOTALS: Final = "AggregateExec: mode=Single, gby=[],"
"""The step that sums all records up: what it holds is one row, made anew with each run."""


class PlanKey(NamedTuple):
    """What a plan depends on. The SQL is whole: what the options of a request change is written in it."""

    sql: str
    schema: pa.Schema


class PreparedPlan:
    """A plan with a place for the object. One query at a time runs by it."""

    def __init__(self, key: PlanKey, limits: SelectLimits, noted: list[LakebedError]) -> None:
        """Raises what DataFusion raises of the SQL; `noted` has what was wrong with it in our words."""
        self.key = key
        self.noted = noted
        """What went wrong in this run, in our words."""
        self._place = _Place(key.schema)
        self._runs = 0
        # Nothing that is kept holds more than a batch: there is nothing to spill.
        self._context = open_session(limits, 1, None)
        # Not by a method of ours: what DataFusion holds is not searched for cycles, and would never be let go.
        register_functions(self._context, noted.append)
        self._context.register_dataset(TABLE, ScanDataset(self._place, 1, noted.append, in_order=True))
        self._plan = plan_sql(self._context, key.sql).execution_plan()
        self._is_passing = _is_passing(self._plan)
        assert self._plan.partition_count == 1  # noqa: S101  # as the session has one, and the place one reader

    @property
    def is_reusable(self) -> bool:
        """Whether nothing of a run is left in the plan, by all that is known of its steps; and it is not worn out."""
        return self._is_passing and self._runs < MAX_RUNS

    def run(self, scan: Scan, threads: int) -> Any:
        """Batches of the result. `threads` may read the object."""
        self._runs += 1
        self._place.fill(scan, threads)
        return self._context.execute(self._plan, 0)

    def clear(self) -> None:
        """Let go of the object."""
        self._place.clear()
        self.noted.clear()


class PlanCache:
    """The plans that nobody runs by, of which those go first that were not asked for the longest. For any thread."""

    def __init__(self, most: int = MAX_PLANS) -> None:
        self._most = most
        self._turn = threading.Lock()
        self._plans: list[PreparedPlan] = []

    def __len__(self) -> int:
        with self._turn:
            return len(self._plans)

    def take(self, key: PlanKey) -> PreparedPlan | None:
        """A plan for that, which is the taker's alone until it is put back."""
        with self._turn:
            for number, plan in enumerate(self._plans):
                if plan.key == key:
                    return self._plans.pop(number)
        return None

    def put(self, plan: PreparedPlan) -> None:
        """Keep a plan whose run came to its end, if it can be run again."""
        plan.clear()
        if not plan.is_reusable:
            return
        with self._turn:
            self._plans.append(plan)
            del self._plans[: -self._most]


def open_session(limits: SelectLimits, partitions: int, spill: Path | None) -> datafusion.SessionContext:
    """A session with a memory of its own. Without `spill`, what does not fit into it ends the query."""
    runtime = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(limits.memory_bytes)
    runtime = runtime.with_disk_manager_disabled() if spill is None else runtime.with_disk_manager_specified(spill)
    config = (
        datafusion.SessionConfig()
        .with_target_partitions(partitions)
        .with_information_schema(False)
        # The nesting of expressions has a limit of ours; theirs is lower than what a rewritten expression takes.
        .set("datafusion.sql_parser.recursion_limit", "1000")
        .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
    )
    return datafusion.SessionContext(config, runtime)


def plan_sql(context: datafusion.SessionContext, sql: str) -> datafusion.DataFrame:
    """A query in a session. It can do nothing but read."""
    options = datafusion.SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)
    return context.sql_with_options(sql, options)


def is_cacheable(query: Query, threads: int) -> bool:
    """Whether the plan of a query is worth being kept: it passes records on one by one, or sums all of them up."""
    return query.is_streaming and (query.in_order or threads == 1)


def _is_passing(plan: datafusion.ExecutionPlan) -> bool:
    said = plan.display().strip()
    known = said.partition(":")[0] in _PASSING or said.startswith(_TOTALS)
    return known and all(map(_is_passing, plan.children()))


class _Place:
    """Where the object of a query goes: a scan of its columns, whichever it is."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._condition: pa.compute.Expression | None = None
        self._filled: tuple[Scan, int] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns that can be asked for."""
        return self._schema

    def fill(self, scan: Scan, threads: int) -> None:
        """Put an object there."""
        self._filled = (scan, threads)

    def clear(self) -> None:
        """Take it away."""
        self._filled = None

    def prune(self, condition: pa.compute.Expression | None) -> None:
        """Said when the plan is made, and meant of each object."""
        self._condition = condition

    def readers(self, count: int, *, in_order: bool) -> list[BatchReader]:
        """One, of the object that is there when it begins."""
        return [self._read]

    def stop(self) -> None:
        """Whoever filled the place stops what it put there."""

    def _read(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        assert self._filled is not None  # noqa: S101  # a plan runs only after it was filled
        scan, threads = self._filled
        scan.prune(self._condition)
        yield from scan.readers(threads, in_order=True)[0](columns)
