"""The cache folder of tests and benchmarks: programs and jars that are built or downloaded once, and server data."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("CHECKOUT_CACHE") or Path.home() / ".cache" / "lakebed")
"""The variable has no LAKEBED_ prefix, because servers reject unknown settings with that prefix."""


def build_once(name: str, build: Callable[[Path], Path]) -> Path:
    """Return the file or folder of that name in the cache; build it if it is missing.

    `build` gets an empty staging folder and returns the path in it to keep. Concurrent processes wait for the first.
    """
    kept = CACHE / name
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_name(f".{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            staging = kept.with_name(f".{kept.name}-staging")
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            build(staging).rename(kept)
            shutil.rmtree(staging)
    return kept
