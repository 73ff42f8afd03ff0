"""`python -m benchmarks.events`: a long queue of events drains to targets in memory."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.events.draining import drain


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.events", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000, help="how many wait (default 1,000,000)")
    parser.add_argument("--targets", type=int, default=1, help="how many targets want all of them (default 1)")
    parser.add_argument("--folder", type=Path, help="where the metadata is kept; a temporary folder by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        drained = asyncio.run(drain(Path(folder), events=arguments.events, targets=arguments.targets))
    print(drained.describe())


if __name__ == "__main__":
    main()
