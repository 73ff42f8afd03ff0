"""`lakebed conform`: what this build does not support, as it answers for itself."""

from __future__ import annotations

import argparse
import importlib
from typing import Final

from .output import print_rows

_COLUMNS: Final = ("feature", "answer", "note")


def configure(parser: argparse.ArgumentParser) -> None:
    """What to print, and how."""
    parser.add_argument(
        "--print-unsupported-inventory",
        action="store_true",
        required=True,
        help="list every feature that is refused, and the answer a client gets",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the list that the S3 edge answers from."""
    inventory: list[tuple[str, str, str]] = importlib.import_module("lakebed.wire.s3.unsupported").inventory()
    rows = [(str(feature), str(answer), str(note)) for feature, answer, note in inventory]
    print_rows(_COLUMNS, rows, as_json=arguments.json)
    return 0
