"""`lakebed demo`: starts a server in a new folder, runs real clients against it, and prints the results."""

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
    """Add the flags."""
    parser.add_argument("--folder", type=Path, default=Path(_FOLDER), help="data folder, emptied at the start")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo."""
    require_extra("demo", "the demo")
    walkthrough = Walkthrough(arguments.folder)
    # Turn SIGTERM into an exception, so that the server, in another session, is stopped too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        walkthrough.play(console())
    finally:
        walkthrough.stop()
    return 0
