"""`lakebed pipeline tasks`, `health`, `plan`, `policies`, `submit` and `redrive`: maintenance tasks and table health.

All of them are requests to a running server.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from enum import StrEnum
from itertools import islice
from typing import Final

import msgspec

from lakebed.client import LakebedClient, TableHealth, TableRef, Task, TaskState
from lakebed.client.tables import MaintenancePlan, SubmittedPlan
from lakebed.core.jobs import JobKind, TaskSpec
from lakebed.pipeline.submit import parse_options

from ..governance.administration import moment
from ..output import print_facts, print_json, print_rows
from ..server_access import read_warehouse
from ..server_requests import add_server_command

_SHOWN: Final = 100
_UNKNOWN: Final = "-"


def configure_tasks(words: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommands. Each sets `task`, a function of the arguments."""
    tasks = add_server_command(words, "tasks", "list tasks, or show one task", _tasks)
    tasks.add_argument("id", nargs="?", type=int, help="the task to show")
    tasks.add_argument("--state", choices=_words(TaskState), metavar="STATE", help=_either(TaskState))
    tasks.add_argument("--kind", choices=_words(JobKind), metavar="JOB", help=_either(JobKind))
    tasks.add_argument("--limit", type=int, default=_SHOWN, help=f"maximum number of tasks listed (default {_SHOWN})")

    health = add_server_command(words, "health", "show the health of tables", _health, warehouse=True)
    health.add_argument("--table", metavar="NAMESPACE.TABLE", help="only this table, measured by its manifests")

    plan = add_server_command(
        words, "plan", "preview the tasks that a table's policies require, and why", _plan, warehouse=True
    )
    plan.add_argument("--table", metavar="NAMESPACE.TABLE", required=True)
    plan.add_argument("--enqueue", action="store_true", help="submit the tasks to the queue")

    policies = add_server_command(
        words, "policies", "show the policies that apply to a table, and why", _policies, warehouse=True
    )
    policies.add_argument("--table", metavar="NAMESPACE.TABLE", required=True)

    submit = add_server_command(words, "submit", "submit a job on a table to the workers", _submit, warehouse=True)
    submit.add_argument("job", choices=_words(JobKind), metavar="JOB", help=_either(JobKind))
    submit.add_argument("--table", metavar="NAMESPACE.TABLE", help="the table; export-events has a default")
    submit.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="an option of the job")
    submit.add_argument("--reason", default="", help="reason shown with the task")

    redrive = add_server_command(words, "redrive", "reset the attempts of a dead task", _redrive)
    redrive.add_argument("id", type=int, help="the task")


def _tasks(client: LakebedClient, arguments: argparse.Namespace) -> None:
    if arguments.id is not None:
        _print_task(client.tasks.get(arguments.id), as_json=arguments.json)
        return
    state = None if arguments.state is None else TaskState(arguments.state)
    kind = None if arguments.kind is None else JobKind(arguments.kind)
    found = list(islice(client.tasks.list(state=state, kind=kind), max(0, arguments.limit)))
    if arguments.json:
        print_json([msgspec.to_builtins(task) for task in found])
        return
    rows = [
        (str(task.id), task.kind, _table(task.spec), task.state, f"{task.attempts}/{task.max_attempts}", _news(task))
        for task in found
    ]
    print_rows(("id", "job", "table", "state", "attempts", "news"), rows, as_json=False)


def _health(client: LakebedClient, arguments: argparse.Namespace) -> None:
    warehouse = read_warehouse(arguments)
    if arguments.table is None:
        found = list(client.tables.healths(warehouse))
    else:
        found = [client.tables.health(TableRef.parse(warehouse, arguments.table))]
    if arguments.json:
        print_json([msgspec.to_builtins(health) for health in found])
        return
    columns = ("table", "files", "bytes", "small files", "delete files", "snapshots", "manifests", "measured by")
    print_rows(columns, [_health_row(health) for health in found], as_json=False)


def _plan(client: LakebedClient, arguments: argparse.Namespace) -> None:
    table = _named_table(arguments)
    plan: MaintenancePlan = client.tables.submit_plan(table) if arguments.enqueue else client.tables.plan(table)
    if arguments.json:
        print_json(msgspec.to_builtins(plan))
        return
    for spec in plan.planned:
        print(f"{spec.job}: {spec.reason}{_cost(spec)}")
    for one in plan.revised:
        print(f"{one.spec.job}: task {one.id} is revised: {one.spec.reason}")
    for one in plan.withdrawn:
        print(f"{one.spec.job}: task {one.id} is withdrawn: no policy requires it any more")
    for skipped in plan.skipped:
        print(f"skipped: {skipped.job or skipped.policy.type}: {skipped.reason}")
    if isinstance(plan, SubmittedPlan):
        for one in plan.tasks:
            print(f"task {one.id}: {one.spec.job} {_table(one.spec)}")
    if not (plan.planned or plan.revised or plan.withdrawn or plan.skipped):
        print("no policy applies to the table")


def _policies(client: LakebedClient, arguments: argparse.Namespace) -> None:
    found = client.policies.why(_named_table(arguments))
    if arguments.json:
        print_json([msgspec.to_builtins(policy) for policy in found])
        return
    rows = [
        (
            policy.policy_type,
            ".".join((*policy.namespace, policy.name)),
            str(policy.version),
            policy.attached_to,
            policy.reason,
        )
        for policy in found
    ]
    print_rows(("type", "policy", "version", "attached to", "why"), rows, as_json=False)


def _submit(client: LakebedClient, arguments: argparse.Namespace) -> None:
    named: dict[str, object] = {"warehouse": read_warehouse(arguments)}
    if arguments.table is not None:
        named = _named_table(arguments)._asdict()
    spec = TaskSpec(job=JobKind(arguments.job), options=parse_options(arguments.option), reason=arguments.reason)
    submitted = client.tasks.submit(msgspec.structs.replace(spec, **named))
    if not submitted.is_new and not arguments.json:
        print("a task for the same job and table is already open")
    _print_task(submitted.task, as_json=arguments.json)


def _redrive(client: LakebedClient, arguments: argparse.Namespace) -> None:
    _print_task(client.tasks.redrive(arguments.id), as_json=arguments.json)


# -- output ------------------------------------------------------------------------------------------------------------


def _print_task(task: Task, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(task))
        return
    spec = task.spec
    facts = {
        "id": str(task.id),
        "job": task.kind,
        "table": _table(spec),
        "state": task.state,
        "attempts": f"{task.attempts} of {task.max_attempts}",
        "reason": spec.reason,
        "requested by": spec.requested_by,
        "created": moment(task.created_ms),
        "changed": moment(task.changed_ms),
        "worker": task.worker or "",
        "options": _json(spec.options) if spec.options else "",
        "expected": _cost(spec).strip(" ()"),
        "progress": _json(task.progress) if task.progress else "",
        "failure": task.failure or "",
        "report": _json(task.report) if task.report else "",
    }
    print_facts({name: value for name, value in facts.items() if value}, as_json=False)


def _health_row(health: TableHealth) -> Sequence[str]:
    counts = (
        health.data_files,
        health.data_bytes,
        health.small_files,
        health.delete_files,
        health.snapshots,
        health.manifests,
    )
    return (health.ref.name, *(_UNKNOWN if count is None else f"{count:,}" for count in counts), health.measured)


def _news(task: Task) -> str:
    if task.state is TaskState.CLAIMED:
        return f"run by {task.worker}"
    return task.failure or task.spec.reason


def _table(spec: TaskSpec) -> str:
    return ".".join(part for part in (spec.warehouse, *spec.namespace, spec.table) if part) or _UNKNOWN


def _cost(spec: TaskSpec) -> str:
    cost = spec.cost
    if cost is None:
        return ""
    return f" ({cost.input_files:,} files, {cost.input_bytes:,} bytes, about {cost.estimated_seconds:.0f} s)"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


# -- arguments ---------------------------------------------------------------------------------------------------------


def _named_table(arguments: argparse.Namespace) -> TableRef:
    return TableRef.parse(read_warehouse(arguments), arguments.table)


def _words(of: type[StrEnum]) -> list[str]:
    return [word.value for word in of]


def _either(of: type[StrEnum]) -> str:
    return "one of " + ", ".join(of)
