"""`lakebed version`."""

from __future__ import annotations

import argparse
import platform

from lakebed import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing to say."""


def run(arguments: argparse.Namespace) -> int:
    """Print our version and Python's."""
    print(f"lakebed {__version__} (Python {platform.python_version()})")
    return 0
