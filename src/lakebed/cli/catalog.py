"""`lakebed catalog`: imports the existing tables of a directory into a catalog."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakebed.client import AdoptedTable, AdoptionOutcome, LakebedClient
from lakebed.core.errors import InvalidInput, LakebedError

from .output import print_json, print_rows
from .server_access import WAREHOUSE_VARIABLE
from .server_requests import add_server_command, run_server_command

_GOOD = frozenset({AdoptionOutcome.REGISTERED, AdoptionOutcome.PRESENT, AdoptionOutcome.WOULD_REGISTER})
_SHOWN = 50
"""Rows of tables that were not registered, at most."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    text = "register the Iceberg tables below a location, without copying files"
    importing = add_server_command(tasks, "import", text, _import, warehouse=True)
    importing.add_argument(
        "location", metavar="LOCATION", help="a directory of the catalog, such as s3://lake/warehouse"
    )
    importing.add_argument(
        "--namespace", metavar="NAMESPACE", default="", help="the namespace for them; folders below it are its levels"
    )
    importing.add_argument("--dry-run", action="store_true", help="only report what would be registered")


def run(arguments: argparse.Namespace) -> int:
    """Run the task."""
    return run_server_command(arguments)


def _import(client: LakebedClient, arguments: argparse.Namespace) -> None:
    catalog = arguments.warehouse or os.environ.get(WAREHOUSE_VARIABLE, "")
    if not catalog:
        raise InvalidInput(f"name the catalog: --warehouse, or {WAREHOUSE_VARIABLE}", argument="--warehouse")
    namespace = tuple(arguments.namespace.split(".")) if arguments.namespace else ()
    with _progress() as on_table:
        adopted = client.adoption.adopt(
            catalog, arguments.location, namespace=namespace, dry_run=arguments.dry_run, on_table=on_table
        )
    if arguments.json:
        print_json([_document(table) for table in adopted])
    else:
        _print(adopted)
    failed = sum(table.outcome not in _GOOD for table in adopted)
    if failed:
        raise LakebedError(
            f"some tables were not registered; correct the cause, and repeat the command. tables={failed}"
        )


def _print(adopted: list[AdoptedTable]) -> None:
    others = [table for table in adopted if table.outcome not in _GOOD]
    if others:
        rows = [
            (".".join((*table.namespace, table.name)), table.outcome, table.found.location, table.reason)
            for table in others[:_SHOWN]
        ]
        print_rows(("table", "outcome", "location", "reason"), rows, as_json=False)
        if len(others) > _SHOWN:
            print(f"… and {len(others) - _SHOWN} more")
    counts = Counter(table.outcome for table in adopted)
    listed = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in AdoptionOutcome if counts[outcome])
    print(f"{len(adopted):,} tables found: {listed}" if adopted else "no tables found: no metadata files are there")


def _document(table: AdoptedTable) -> dict[str, object]:
    return {
        "namespace": table.namespace,
        "name": table.name,
        "outcome": table.outcome,
        "location": table.found.location,
        "metadata-location": table.found.metadata_location,
        "reason": table.reason or None,
    }


@contextmanager
def _progress() -> Iterator[Callable[[AdoptedTable], None]]:
    """Shows the number of tables on a terminal."""
    if not sys.stderr.isatty():
        yield lambda table: None
        return
    from rich.console import Console

    counts: Counter[str] = Counter()
    with Console(stderr=True).status("looking for tables …") as status:

        def show(table: AdoptedTable) -> None:
            counts[table.outcome] += 1
            listed = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
            status.update(f"{listed}: {table.found.location}")

        yield show
