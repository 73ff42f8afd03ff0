"""`lakebed pipeline`: Spark jobs on tables."""

from __future__ import annotations

import argparse
import sys
from typing import Final, NoReturn

import msgspec

from lakebed.client.names import TableRef
from lakebed.core.errors import InvalidInput
from lakebed.core.extras import require_extra
from lakebed.core.jobs import JobKind
from lakebed.core.sizes import format_bytes
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.progress import terminal_progress
from lakebed.pipeline.report import FileTotals, JobReport
from lakebed.pipeline.spark.session import spark_session
from lakebed.pipeline.submit import FOUND_PROBLEMS, parse_options
from lakebed.pipeline.table_ref import CatalogTable

from ..output import print_json, print_rows
from ..server_access import add_access_flags, read_access, read_warehouse
from ..settings_flags import read_settings
from .tasks import configure_tasks
from .worker import configure_worker

_NAMED: Final = 20
"""Skipped files listed by name; `--json` lists all of them."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    words = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    run_one = words.add_parser(
        "run",
        help="run a job on a table, now, in this process",
        description="Run a job on a table now, with Spark on this machine or on the cluster of pipeline.master.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    run_one.add_argument("-h", "--help", action=_HelpWithJobs, nargs=0, help="show this help message and exit")
    run_one.add_argument("job", metavar="JOB", help="one of the jobs below")
    run_one.add_argument("--table", metavar="NAMESPACE.TABLE", help="the table")
    run_one.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="an option of the job")
    run_one.add_argument("--dry-run", action="store_true", help="only report what the job would do")
    run_one.add_argument("--json", action="store_true", help="print JSON")
    add_access_flags(run_one, warehouse=True)
    run_one.set_defaults(task=_run)
    configure_worker(words)
    configure_tasks(words)


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen subcommand."""
    status: int = arguments.task(arguments)
    return status


class _HelpWithJobs(argparse.Action):
    """Prints the help with all jobs and their options, for which the jobs are imported."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        require_extra("pipeline", "lakebed pipeline run")
        parser.epilog = _epilog()
        parser.print_help()
        parser.exit()


def _run(arguments: argparse.Namespace) -> int:
    require_extra("pipeline", "lakebed pipeline run")
    job = _job(arguments.job)
    given = parse_options(arguments.option)
    job.check(given)
    settings = read_settings(arguments).settings
    access = read_access(arguments, settings)
    name = arguments.table or job.default_table
    if not name:
        raise InvalidInput("the job needs a table; add --table NAMESPACE.TABLE", argument="--table")
    warehouse = read_warehouse(arguments)
    table = CatalogTable(TableRef.parse(warehouse, name), access)
    with terminal_progress(sys.stderr) as progress:
        progress.stage("starting Spark")
        spark = spark_session(access, warehouse, settings.pipeline)
        report = job.do(spark, table, given, dry_run=arguments.dry_run, progress=progress)
    if arguments.json:
        print_json(msgspec.to_builtins(report))
    else:
        _print(report)
    return 0 if report.is_well else FOUND_PROBLEMS


def _job(word: str) -> JobDefinition:
    try:
        return find_job(JobKind(word))
    except ValueError as error:
        raise InvalidInput(f"unknown job. found={word!r} expected={', '.join(JobKind)}", argument="JOB") from error


def _print(report: JobReport) -> None:
    state = "dry run" if report.dry_run else "done" if report.changed else "nothing changed"
    print(f"{report.job} {report.table}: {state} in {report.seconds:.1f} s")
    amounts = {"read": report.read, "wrote": report.wrote, "removed": report.removed, "saved": report.saved}
    shown_amounts = [(name, *_cells(amount)) for name, amount in amounts.items() if amount != FileTotals()]
    if shown_amounts:
        print_rows(("", "files", "bytes", "rows"), shown_amounts, as_json=False)
    for name, value in report.details.items():
        print(f"{name}: {', '.join(value[:_NAMED]) if isinstance(value, list) else value}")
    for skipped in report.skipped[:_NAMED]:
        print(f"skipped: {skipped.what}: {skipped.reason}")
    if len(report.skipped) > _NAMED:
        print(f"skipped: {len(report.skipped) - _NAMED} more; --json lists them")
    for problem in report.problems:
        print(f"problem: {problem.problem}: {problem.what}: {problem.detail}")


def _cells(amount: FileTotals) -> tuple[str, str, str]:
    return f"{amount.files:,}", _bytes(amount.bytes), f"{amount.rows:,}"


def _bytes(size: int) -> str:
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return format_bytes(size)


def _epilog() -> str:
    """The jobs and their options, for the help."""
    lines = ["jobs and their options:"]
    for kind in JobKind:
        job = find_job(kind)
        lines += ["", f"  {kind}: {job.text}"]
        lines += [f"    {spec.name}: {spec.text}" for spec in job.options]
    return "\n".join(lines)
