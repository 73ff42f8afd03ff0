"""`lakebed config`: the settings that a server started this way would have."""

from __future__ import annotations

import argparse

from lakebed.core.settings import describe, load_settings

from .settings_flags import add_settings_flags, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the settings of the server."""
    add_settings_flags(parser, serving=True)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--print", action="store_true", help="print every setting as TOML, secrets hidden, with where it came from"
    )
    what.add_argument("--defaults", action="store_true", help="print every setting with its default instead")


def run(arguments: argparse.Namespace) -> int:
    """Check the settings, and print them if asked."""
    loaded = load_settings() if arguments.defaults else read_settings(arguments)
    if arguments.print or arguments.defaults:
        print(describe(loaded), end="")
    else:
        print("the settings are good; --print shows them")
    return 0
