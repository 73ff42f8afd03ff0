"""`lakebed version`: prints the version."""

from __future__ import annotations

import argparse
import platform

from lakebed import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the versions of Lakebed and Python."""
    print(f"lakebed {__version__} (Python {platform.python_version()})")
    return 0
