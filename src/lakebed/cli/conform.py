"""`lakebed conform`: tests a server's catalog with PyIceberg, or prints claims and their evidence."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from lakebed.conform import live_evidence
from lakebed.conform.clients import client_version
from lakebed.conform.engines import VERSIONS
from lakebed.conform.evidence import packaged_evidence
from lakebed.conform.expectations import NotConforming
from lakebed.conform.failures import LOADS
from lakebed.conform.inventories import PRINTS, Context
from lakebed.conform.options import ConformTarget, add_options, option_values, read_target, redacted
from lakebed.conform.profiles import VENDED
from lakebed.conform.sequence import STEPS, RunOptions, RunOutcome, run_sequence
from lakebed.core.errors import InvalidInput, LakebedError, StateConflict
from lakebed.core.extras import require_extra

from .output import console

_DOES_NOT_CONFORM: Final = 1
"""Exit status of a failed run."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_options(parser)
    engines = parser.add_argument_group("prints about engines and rehearsals")
    for option in (*VERSIONS, *LOADS):
        engines.add_argument(
            option.flag, metavar="TEXT", default=option.default, help=f"{option.text} (default {option.default or '-'})"
        )
    prints = parser.add_argument_group(
        "prints", "Print JSON instead of running the test."
    ).add_mutually_exclusive_group()
    for name, (text, _) in PRINTS.items():
        prints.add_argument(f"--print-{name}", dest="printed", action="store_const", const=name, help=text)


def run(arguments: argparse.Namespace) -> int:
    """Print, or run the test. A failure is one line on stderr."""
    try:
        values = option_values(arguments, os.environ, int(time.time()))
        if arguments.printed is not None:
            _print(arguments, values)
        else:
            _conform(arguments, values)
    except (LakebedError, NotConforming) as error:
        print(f"ERROR: {' '.join(str(error).split())}", file=sys.stderr)
        return _DOES_NOT_CONFORM
    return 0


def _print(arguments: argparse.Namespace, values: dict[str, str]) -> None:
    for option in (*VERSIONS, *LOADS):
        values[option.name] = getattr(arguments, option.name)
    values["cleanup"] = "yes" if arguments.cleanup else ""
    _, make = PRINTS[arguments.printed]
    context = Context(packaged_evidence(), values)
    if arguments.printed == "unsupported-inventory":
        context = Context(context.evidence, values, _catalog_endpoints(), _refused_by_store(), _refused_by_catalog())
    print(_json(make(context)))


def _catalog_endpoints() -> list[str]:
    from lakebed.wire.iceberg.operations import catalog_routes
    from lakebed.wire.iceberg.unsupported import UNSUPPORTED

    refused = {one.operation for one in UNSUPPORTED}
    return [route.endpoint for route in catalog_routes().routes if route.name not in refused]


def _refused_by_store() -> list[dict[str, str]]:
    from lakebed.wire.s3.unsupported import inventory

    return _refusals(inventory())


def _refused_by_catalog() -> list[dict[str, str]]:
    from lakebed.wire.iceberg.unsupported import inventory
    from lakebed.wire.management.unsupported import inventory as of_management

    return _refusals([*inventory(), *of_management()])


def _refusals(inventory: list[tuple[str, str, str]]) -> list[dict[str, str]]:
    return [{"feature": feature, "answer": answer, "note": note} for feature, answer, note in inventory]


def _conform(arguments: argparse.Namespace, values: dict[str, str]) -> None:
    target = read_target(arguments, values)
    require_extra("conform", "a run of lakebed conform")
    screen = console()

    def show_step(number: int, text: str) -> None:
        screen.print(f"[{number}/{STEPS}] {text}", markup=False, highlight=False)

    outcome = RunOutcome()
    course = RunOptions(
        replaces=arguments.replace,
        probes_catalog=not arguments.skip_catalog_api_probes,
        cleans_up=arguments.cleanup,
    )
    try:
        run_sequence(target, course, outcome, show_step)
    except NotConforming:
        if values["live_evidence_output"]:
            _write_record(target, values, outcome)
        raise
    if values["live_evidence_output"]:
        problems = _write_record(target, values, outcome)
        if problems:
            raise StateConflict(f"the run passed, but its record is not valid evidence: {'; '.join(problems)}")
    screen.print("PASS", markup=False)


def _write_record(target: ConformTarget, values: dict[str, str], outcome: RunOutcome) -> list[str]:
    """Write the record of a run; returns its validation problems. Raises InvalidInput."""
    document = live_evidence.evidence_document(_record(target, values, outcome))
    path = Path(values["live_evidence_output"])
    try:
        path.write_text(_json(document) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write the record. path={path} reason={error.strerror}") from error
    problems: list[str] = document["validation"]["problems"]
    return problems


def _record(target: ConformTarget, values: dict[str, str], outcome: RunOutcome) -> dict[str, Any]:  # Any: JSON
    if target.profile.credential_mode == VENDED:
        claim = "credential-smoke"
    else:
        claim = "compatibility-smoke" if target.profile.name == "lakebed-compat" else "catalog-smoke"
    return {
        "schema": live_evidence.SCHEMA,
        "schema_version": live_evidence.SCHEMA_VERSION,
        "client_name": "pyiceberg",
        "scenario": target.profile.name,
        "lakebed_build": values["lakebed_build"],
        "git_sha": values["git_sha"],
        "catalog_backing": values["catalog_backing"],
        "endpoint": target.endpoint,
        "warehouse": target.resolved.warehouse,
        "rest_path": target.rest_path,
        "namespace": target.namespace,
        "table": target.table,
        "run_timestamp_utc": values["run_timestamp_utc"] or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "operator": values["operator"],
        "expected_status": live_evidence.PASS,
        "claim": claim,
        "command": redacted(["lakebed", *sys.argv[1:]]),
        "client_version": values["client_version"] or client_version(),
        "metadata_location": outcome.metadata_location,
        "observed_status": live_evidence.PASS if outcome.passed else live_evidence.FAIL,
        "row_count": outcome.row_count,
        "cleanup_result": outcome.cleanup,
    }


def _json(document: object) -> str:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
