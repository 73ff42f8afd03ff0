"""Entry point of jobs as programs, for `spark-submit` and `python -m`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from lakebed.client.access import ServerAccess, find_access
from lakebed.client.tables import TableRef
from lakebed.core.errors import InvalidInput, LakebedError
from lakebed.core.jobs import Option
from lakebed.core.settings import PipelineDelegation, PipelineSettings

from .job import JobDefinition
from .progress import terminal_progress
from .spark.session import spark_session
from .table_ref import CatalogTable

FAILED: Final = 2
FOUND_PROBLEMS: Final = 1


def run_program(job: JobDefinition, argv: Sequence[str] | None = None) -> int:
    """Run a job by its command line and return the exit status. The report is JSON on stdout.

    The credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the environment.
    """
    _remove_job_folder()
    arguments = _parser(job).parse_args(argv)
    try:
        given = parse_options(arguments.option)
        job.check(given)
        access = _access(arguments.catalog_uri)
        settings = PipelineSettings(master=arguments.master, delegation=arguments.delegation)
        table = CatalogTable(TableRef.parse(arguments.warehouse, arguments.table), access)
        with terminal_progress(sys.stderr) as progress:
            progress.stage("starting Spark")
            spark = spark_session(access, arguments.warehouse, settings)
            report = job.do(spark, table, given, dry_run=arguments.dry_run, progress=progress)
    except LakebedError as error:
        sys.stderr.write(f"{job.kind}: {' '.join(str(error).split())}\n")
        return FAILED
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    return 0 if report.is_well else FOUND_PROBLEMS


def parse_options(words: Sequence[str]) -> dict[str, Option]:
    """Parse options written as `name=value`. Raises InvalidInput."""
    given: dict[str, Option] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name:
            raise InvalidInput(f"expected an option as name=value. found={word!r}", argument="--option")
        given[name.strip()] = value
    return given


def _remove_job_folder() -> None:
    """Remove the folder of jobs from `sys.path`: its `statistics` would hide the standard library's module."""
    jobs = Path(__file__).resolve().with_name("jobs")
    sys.path[:] = [place for place in sys.path if Path(place).resolve() != jobs]


def _parser(job: JobDefinition) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=str(job.kind),
        description=f"{job.text}.",
        epilog="\n".join(["options of the job:", *(f"  {spec.name}: {spec.text}" for spec in job.options)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--catalog-uri", metavar="URL", help="address of the server, http://HOST:PORT [LAKEBED_ENDPOINT]"
    )
    parser.add_argument("--warehouse", required=True, help="the table bucket")
    parser.add_argument("--table", metavar="NAMESPACE.TABLE", required=not job.default_table, default=job.default_table)
    parser.add_argument("--option", metavar="NAME=VALUE", action="append", default=[], help="an option of the job")
    parser.add_argument("--dry-run", action="store_true", help="only report what the job would do")
    parser.add_argument(
        "--master", default=PipelineSettings().master, help="Spark master, unless submitted by spark-submit"
    )
    parser.add_argument(
        "--delegation", type=PipelineDelegation, choices=list(PipelineDelegation), default=PipelineDelegation.VENDED
    )
    return parser


def _access(catalog_uri: str | None) -> ServerAccess:
    """Access to the server. The address may include the catalog's path."""
    if catalog_uri is None:
        return find_access()
    scheme, separator, rest = catalog_uri.partition("://")
    return find_access(f"{scheme}{separator}{rest.partition('/')[0]}")
