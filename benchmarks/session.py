"""The frame of a benchmark: its work folder, progress on standard error, and saved results."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from benchmarks import results
from benchmarks.cache import CACHE
from benchmarks.results import Circumstances
from benchmarks.table import Table


def report_progress(line: str) -> None:
    """Print progress to standard error, apart from the results."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def work_folder(name: str, chosen: Path | None, needed_bytes: int = 0) -> Iterator[Path]:
    """Create a temporary folder, by default in the cache. Exits if less than `needed_bytes` of the disk are free."""
    parent = chosen or CACHE / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(parent).free < needed_bytes:
        report_progress(f"not enough free disk: {needed_bytes >> 30} GiB are required. folder={parent}")
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=parent) as folder:
        yield Path(folder)


def save(section: str, circumstances: Circumstances, result: object, table: Table, failed: bool = False) -> int:
    """Print and save a table; return the exit status."""
    table.show()
    report_progress(f"saved in {results.save(section, circumstances, result, table)}")
    return 1 if failed else 0


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run `main` as a program; SIGTERM still stops its servers and removes its folder."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
