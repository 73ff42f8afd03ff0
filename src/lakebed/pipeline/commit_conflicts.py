"""Giving way: a job whose commit lost to somebody else's plans anew on the table as it is now.

User commits come first. A job never repeats a commit as it was: what it had planned may be about files that are gone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from lakebed.core.errors import CommitConflict, WriteConflict

from .errors import explanation, is_spark_error
from .files.table_shape import current_snapshot
from .progress import Progress
from .table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

ATTEMPTS: Final = 5
_FIRST_PAUSE_SECONDS: Final = 0.5

_LOST: Final = "org.apache.iceberg.exceptions.CommitFailedException"
_DOUBTFUL: Final = (
    "org.apache.iceberg.exceptions.ValidationException",
    # Partial progress tells by its own words that all its commits failed, and not why.
    "rewrite commits failed",
    # A file that was planned on and that another job's expiry has taken away.
    "org.apache.iceberg.exceptions.NotFoundException",
)
"""What a lost conflict may look like, and a mistake too: it is one if somebody has committed meanwhile."""


def retry_on_conflict(
    spark: SparkSession,
    table: CatalogTable,
    progress: Progress,
    attempt: Callable[[], T],
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Do what `attempt` does, which plans for itself; again when it lost. Raises WriteConflict in the end."""
    for number in range(1, attempts + 1):
        before = current_snapshot(spark, table)
        try:
            return attempt()
        except Exception as error:
            if not _was_lost(error, lambda: current_snapshot(spark, table) != before):  # noqa: B023  # called here
                raise
            if number == attempts:
                raise WriteConflict(
                    f"gave way to other commits too often: run it again when fewer are made. table={table}"
                    f" attempts={attempts} reason={explanation(error)}"
                ) from error
        progress.stage(f"planning anew: somebody else committed first (attempt {number + 1} of {attempts})")
        sleep(_FIRST_PAUSE_SECONDS * 2 ** (number - 1) * (1 - random.random() / 2))  # noqa: S311  # spreads pauses
    raise AssertionError("not reached")


def _was_lost(error: Exception, has_moved: Callable[[], bool]) -> bool:
    if isinstance(error, CommitConflict):
        return True
    if not is_spark_error(error):
        return False
    text = str(error)
    return _LOST in text or (any(words in text for words in _DOUBTFUL) and has_moved())
