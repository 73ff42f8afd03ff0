"""`lakebed serve`: the server, in the foreground, until it is told to stop."""

from __future__ import annotations

import argparse
import importlib

from lakebed.core.settings import Settings

from .settings_flags import add_settings_flags, read_settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the settings of the server."""
    add_settings_flags(parser, serving=True)


def run(arguments: argparse.Namespace) -> int:
    """Serve; the exit status when it ended."""

    def read() -> Settings:
        return read_settings(arguments).settings

    settings = read()
    # Only now: a mistake in the settings is told before the server's modules are loaded.
    status: int = importlib.import_module("lakebed.server").run(settings, read) or 0
    return status
