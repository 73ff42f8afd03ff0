"""Retries of a job after a commit conflict: each attempt plans again on the current table.

User commits take precedence. A job never repeats a commit unchanged: the files it planned for may be gone.
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
    # With partial progress, the message says only that all commits failed, not why.
    "rewrite commits failed",
    # A planned file that another job's expiration has deleted.
    "org.apache.iceberg.exceptions.NotFoundException",
)
"""Either a lost conflict or a real error: it is a conflict if the table has a new snapshot."""


def retry_on_conflict(
    spark: SparkSession,
    table: CatalogTable,
    progress: Progress,
    attempt: Callable[[], T],
    *,
    attempts: int = ATTEMPTS,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Run `attempt`, which plans for itself, until its commit succeeds. Raises WriteConflict after `attempts`."""
    for number in range(1, attempts + 1):
        before = current_snapshot(spark, table)
        try:
            return attempt()
        except Exception as error:
            if not _was_lost(error, lambda: current_snapshot(spark, table) != before):  # noqa: B023  # called here
                raise
            if number == attempts:
                raise WriteConflict(
                    f"too many commit conflicts; run the job again when the table has fewer writers. table={table}"
                    f" attempts={attempts} reason={explanation(error)}"
                ) from error
        progress.stage(f"commit conflict, planning again (attempt {number + 1} of {attempts})")
        sleep(_FIRST_PAUSE_SECONDS * 2 ** (number - 1) * (1 - random.random() / 2))  # noqa: S311  # spreads pauses
    raise AssertionError("not reached")


def _was_lost(error: Exception, has_moved: Callable[[], bool]) -> bool:
    if isinstance(error, CommitConflict):
        return True
    if not is_spark_error(error):
        return False
    text = str(error)
    return _LOST in text or (any(words in text for words in _DOUBTFUL) and has_moved())
