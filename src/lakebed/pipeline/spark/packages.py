"""Spark's packages are fetched by one process at a time.

Spark has Ivy bring them into a folder of the user's, which two at once leave in a state that neither starts from. Once
they are there a start looks for them and is done, so nobody waits for long.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def fetching_alone() -> Iterator[None]:
    """Wait until no other process of this user starts a Spark, and have them wait for the block."""
    path = Path(tempfile.gettempdir()) / f"lakebed-spark-packages-{os.geteuid()}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
