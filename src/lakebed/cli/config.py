"""`lakebed config`: checks and prints the settings of a server with the same flags."""

from __future__ import annotations

import argparse

from lakebed.core.settings import describe, load_settings

from .settings_flags import add_settings_flags, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_settings_flags(parser, serving=True)
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--print", action="store_true", help="print every setting as TOML with its origin; secrets are hidden"
    )
    output.add_argument("--defaults", action="store_true", help="print every setting with its default")


def run(arguments: argparse.Namespace) -> int:
    """Check the settings, and print them with `--print`."""
    loaded = load_settings() if arguments.defaults else read_settings(arguments)
    if arguments.print or arguments.defaults:
        print(describe(loaded), end="")
    else:
        print("the settings are valid; --print shows them")
    return 0
