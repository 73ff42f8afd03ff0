"""The planner: which tasks the policies of a table require, with the reason and the expected cost. Pure.

Disabled policies lead to no tasks. After a run a job pauses for its interval, longer after failures, and it does not
run again on the version that it saw: a rule that is wrong about a job then costs one run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from lakebed.core.jobs import JobKind, Option, PolicyOrigin, TaskSpec
from lakebed.governance.policies import EffectivePolicy

from .rules.costs import estimate_cost
from .rules.job_rules import DetailLevel, JobDue, NeedsDetail, NotDue, RuleResult, TableState, evaluate_rule
from .rules.policy_rules import JobInstruction, read_policy

__all__ = [
    "SCHEDULER",
    "LastJobRun",
    "PlannedTask",
    "SkippedPolicy",
    "TaskPlan",
    "options_text",
    "plan_table",
    "policy_fingerprint",
    "policy_origin",
]

SCHEDULER: Final = "scheduler"
"""The requester of tasks that policies require."""

PRIORITY_WINDOW_MS: Final = 600_000
"""How far an urgent task is put before others. Bounded, so that less urgent tasks are not starved."""

FIRST_PAUSE_MS: Final = 3_600_000
LONGEST_PAUSE_MS: Final = 24 * 3_600_000
"""How long a job pauses on a table after its task died: doubled from the first."""

UNCHANGED_PAUSE_MS: Final = 24 * 3_600_000
"""How long a job that depends on time pauses if nothing was committed since its run."""

_JOB_ORDER: Final = (
    JobKind.REWRITE_LAYOUT,
    JobKind.COMPACT,
    JobKind.REWRITE_MANIFESTS,
    JobKind.COMPUTE_STATISTICS,
    JobKind.EXPIRE_SNAPSHOTS,
    JobKind.REMOVE_ORPHANS,
)
"""The order of a table's jobs: snapshot expiration follows the rewrites whose files it removes."""

_TIME_BASED: Final = frozenset({JobKind.EXPIRE_SNAPSHOTS})
"""Jobs that may have work although nothing was committed."""
_OWN_INTERVAL: Final = frozenset({JobKind.REMOVE_ORPHANS})
"""Jobs whose rule applies the interval itself."""


@dataclass(frozen=True, slots=True)
class LastJobRun:
    """The last run of a job on a table."""

    job: JobKind
    task: int
    version_token: str
    """The version of the table on which the last successful run began."""
    options: str
    """The options of that run, as one text."""
    succeeded_ms: int | None = None
    failures: int = 0
    """Tasks that died since."""
    failed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task to submit, and when it may begin."""

    spec: TaskSpec
    run_at_ms: int
    """Before now for tasks that help more: the queue leases the task that has been due longest."""


@dataclass(frozen=True, slots=True)
class SkippedPolicy:
    """A policy that leads to no task now, with the reason."""

    policy: PolicyOrigin
    job: JobKind | None
    """None if the reason is about the policy itself."""
    reason: str


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The tasks that the policies of a table require."""

    tasks: tuple[PlannedTask, ...] = ()
    skipped: tuple[SkippedPolicy, ...] = ()
    detail: DetailLevel = DetailLevel.SUMMARY
    """The detail that a decision on all jobs requires."""
    again_ms: int | None = None
    """When the passage of time alone may require more."""
    results: Mapping[JobKind, RuleResult] = field(default_factory=dict)
    """The result of each job's rule."""


def plan_table(
    subject: TableState,
    policies: Sequence[EffectivePolicy],
    runs: Mapping[JobKind, LastJobRun],
    speeds: Mapping[JobKind, int],
    *,
    is_open: Container[JobKind] = (),
    before: TaskPlan | None = None,
) -> TaskPlan:
    """The tasks that a table's policies require. Jobs with an open task are skipped.

    With more detail, results that did not need it are taken from the plan `before`.
    """
    tasks: list[PlannedTask] = []
    skipped: list[SkippedPolicy] = []
    results: dict[JobKind, RuleResult] = {}
    again: list[int] = []
    detail = subject.detail
    for applicable in policies:
        reading = read_policy(applicable.policy.type, applicable.policy.content, applicable.parameters)
        if reading is None:
            continue
        origin, because = policy_origin(applicable), applicable.reason
        if reading.fault:
            skipped.append(SkippedPolicy(origin, None, f"{because}; its content cannot be read: {reading.fault}"))
            continue
        if not reading.enabled:
            skipped.append(SkippedPolicy(origin, None, f"{because}; it is disabled"))
            continue
        for instruction in reading.instructions:
            job = instruction.job
            if job in is_open:
                skipped.append(SkippedPolicy(origin, job, f"{because}; a task for it is open"))
                continue
            result = None if before is None else before.results.get(job)
            if result is None or isinstance(result, NeedsDetail):
                result = _decide(instruction, subject, runs.get(job))
            results[job] = result
            match result:
                case NeedsDetail(required):
                    detail = max(detail, required)
                case NotDue(why, again_ms):
                    skipped.append(SkippedPolicy(origin, job, f"{because}; {why}"))
                    if again_ms is not None:
                        again.append(again_ms)
                case JobDue():
                    reason = f"{because}; {result.why}"
                    if reading.ignored:
                        reason += f"; ignored: {', '.join(reading.ignored)}"
                    tasks.append(_task(subject, instruction, result, reason, origin, speeds))
    ordered = tuple(_in_order(tasks, subject.now_ms))
    return TaskPlan(ordered, tuple(skipped), detail, min(again, default=None), results)


def policy_origin(applicable: EffectivePolicy) -> PolicyOrigin:
    """A policy as tasks refer to it."""
    policy = applicable.policy
    return PolicyOrigin(
        type=policy.type,
        name=policy.name,
        namespace=policy.namespace,
        version=policy.version,
        attached_to=str(applicable.target),
        inherited=applicable.inherited,
    )


def policy_fingerprint(policies: Sequence[EffectivePolicy]) -> str:
    """A digest of a table's policies: their ids, versions, attachments and parameters."""
    digest = hashlib.sha256()
    for applicable in policies:
        policy = applicable.policy
        parameters = sorted(applicable.parameters.items())
        digest.update(repr((policy.id, policy.version, str(applicable.target), parameters)).encode())
    return digest.hexdigest()[:32]


def _decide(instruction: JobInstruction, subject: TableState, run: LastJobRun | None) -> RuleResult:
    job, now_ms = instruction.job, subject.now_ms
    if run is not None:
        paused = _paused(run, instruction, now_ms)
        if paused is not None:
            return paused
    result = evaluate_rule(job, subject, instruction.options, instruction.interval_ms)
    if not isinstance(result, JobDue) or run is None or job in _OWN_INTERVAL:
        return result
    options = options_text({**instruction.options, **result.options})
    is_same = run.version_token == subject.known.entry.version_token and run.options == options
    if not is_same or run.succeeded_ms is None:
        return result
    if job not in _TIME_BASED:
        return NotDue(f"{result.why}, but nothing was committed since {job} ran last, without effect on it")
    until_ms = run.succeeded_ms + UNCHANGED_PAUSE_MS
    if now_ms >= until_ms:
        return result
    return NotDue(f"{result.why}, but nothing was committed since {job} ran last", again_ms=until_ms)


def _paused(run: LastJobRun, instruction: JobInstruction, now_ms: int) -> NotDue | None:
    """Why a job pauses; None if it does not."""
    if run.failures and run.failed_ms is not None:
        pause_ms = min(FIRST_PAUSE_MS << min(run.failures - 1, 16), LONGEST_PAUSE_MS)
        until_ms = run.failed_ms + pause_ms
        if now_ms < until_ms:
            times = "once" if run.failures == 1 else f"{run.failures} times in a row"
            return NotDue(f"{run.job} failed {times} and is paused", again_ms=until_ms)
    if run.succeeded_ms is not None and instruction.job not in _OWN_INTERVAL:
        until_ms = run.succeeded_ms + instruction.interval_ms
        if now_ms < until_ms:
            return NotDue(f"{run.job} ran {(now_ms - run.succeeded_ms) // 1000} seconds ago", again_ms=until_ms)
    return None


def _in_order(tasks: Sequence[PlannedTask], now_ms: int) -> list[PlannedTask]:
    """Tasks of one table in their order, all as urgent as the most urgent one."""
    first_ms = min((task.run_at_ms for task in tasks), default=now_ms)
    in_order = sorted(tasks, key=lambda task: _JOB_ORDER.index(task.spec.job))
    return [replace(task, run_at_ms=min(first_ms + place, now_ms)) for place, task in enumerate(in_order)]


def _task(
    subject: TableState,
    instruction: JobInstruction,
    due: JobDue,
    reason: str,
    origin: PolicyOrigin,
    speeds: Mapping[JobKind, int],
) -> PlannedTask:
    known = subject.known
    urgency = min(1.0, max(0.0, due.urgency))
    spec = TaskSpec(
        job=instruction.job,
        warehouse=known.catalog.name,
        namespace=known.identifier.namespace,
        table=known.entry.name,
        entry=known.entry.id,
        options={**instruction.options, **due.options},
        reason=reason,
        policy=origin,
        cost=estimate_cost(instruction.job, due.files, due.size, speeds),
        requested_by=SCHEDULER,
    )
    return PlannedTask(spec, subject.now_ms - round(urgency * PRIORITY_WINDOW_MS))


def options_text(options: Mapping[str, Option]) -> str:
    """Options as canonical JSON: equal options are equal texts."""
    return msgspec.json.encode(dict(sorted(options.items()))).decode()
