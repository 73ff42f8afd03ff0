"""What tests and benchmarks keep outside the checkout: programs and jars, made once; servers' data while they run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

CACHE: Final = Path(os.environ.get("CHECKOUT_CACHE") or Path.home() / ".cache" / "lakebed")
"""Elsewhere by a variable that is not one of the product's: a server refuses those of its own that it does not know."""


def build_once(name: str, make: Callable[[Path], Path]) -> Path:
    """The file or folder of that name in the cache.

    Where there is none, `make` is given an empty folder, does its work in it, and tells what of it is to be kept.
    """
    kept = CACHE / name
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_name(f".{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of processes that need it at once, one makes it and the others wait for it
        if not kept.exists():
            staging = kept.with_name(f".{kept.name}-staging")
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            make(staging).rename(kept)
            shutil.rmtree(staging)
    return kept
