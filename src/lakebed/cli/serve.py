"""`lakebed serve`: runs the server in the foreground until it is stopped."""

from __future__ import annotations

import argparse
import importlib

from lakebed.core.settings import Settings

from .settings_flags import add_settings_flags, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_settings_flags(parser, serving=True)


def run(arguments: argparse.Namespace) -> int:
    """Run the server and return its exit status."""

    def read() -> Settings:
        return read_settings(arguments).settings

    settings = read()
    # Imported late: invalid settings fail before the server's modules are loaded.
    status: int = importlib.import_module("lakebed.server").run(settings, read) or 0
    return status
