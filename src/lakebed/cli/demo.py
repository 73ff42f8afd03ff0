"""`lakebed demo`: starts a server in a new folder, uses it as real clients do, and prints what happened."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Final

from lakebed.core.extras import require_extra
from lakebed.demo.walkthrough import Walkthrough

from .output import console

_FOLDER: Final = ".demo"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where the demo works."""
    parser.add_argument("--folder", type=Path, default=Path(_FOLDER), help="where its data goes; made anew each time")


def run(arguments: argparse.Namespace) -> int:
    """Show the product working end to end."""
    require_extra("demo", "the demo")
    walkthrough = Walkthrough(arguments.folder)
    # SIGTERM ends the demo as an exception, so that the server, which is in a session of its own, is stopped too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        walkthrough.play(console())
    finally:
        walkthrough.stop()
    return 0
