"""Subcommands that send requests to a running server."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakebed.client import LakebedClient

from .server_access import add_access_flags, read_access
from .settings_flags import read_settings

ServerCommand = Callable[[LakebedClient, argparse.Namespace], None]


def add_server_command(
    words: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    command: ServerCommand,
    *,
    warehouse: bool = False,
) -> argparse.ArgumentParser:
    """Add a subcommand; with `warehouse`, one with a table bucket. It sets `task` for `run_server_command`."""
    parser = words.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_access_flags(parser, warehouse=warehouse)

    def task(arguments: argparse.Namespace) -> int:
        access = read_access(arguments, read_settings(arguments).settings)
        with LakebedClient(access=access) as client:
            command(client, arguments)
        return 0

    parser.set_defaults(task=task)
    return parser


def run_server_command(arguments: argparse.Namespace) -> int:
    """Run the subcommand and return the exit status."""
    status: int = arguments.task(arguments)
    return status
