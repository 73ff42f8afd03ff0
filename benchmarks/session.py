"""What a benchmark does around its measuring: takes a place to run in, tells how far it is, keeps what it found."""

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
    """Progress, apart from the results."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def work_folder(name: str, chosen: Path | None, needed_bytes: int = 0) -> Iterator[Path]:
    """An empty folder in the one asked for, or else in the cache; gone at the end. Exits where it lacks room."""
    parent = chosen or CACHE / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(parent).free < needed_bytes:
        report_progress(f"the benchmarks need {needed_bytes >> 30} GiB of free disk. folder={parent}")
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=parent) as folder:
        yield Path(folder)


def save(section: str, circumstances: Circumstances, result: object, table: Table, failed: bool = False) -> int:
    """Print a table and keep it; the exit status that it means."""
    table.show()
    report_progress(f"kept in {results.save(section, circumstances, result, table)}")
    return 1 if failed else 0


def run(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Be a program: its servers are stopped and its folder is removed, however it is ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
