"""Reads chosen files of a table with Spark, as Iceberg's own rewrites do.

A set of scan tasks is staged under a name, which Spark reads as a table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import explanation, is_spark_error
from ..spark.iceberg_jvm import closing_each, java_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Any: Java objects.


def file_tasks(loaded: Any, snapshot: int) -> list[Any]:
    """The file scan tasks of a snapshot: data files with their delete files."""
    return list(closing_each(loaded.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles()))


@contextmanager
def staged(spark: SparkSession, loaded: Any, tasks: Sequence[Any]) -> Iterator[str]:
    """Stage tasks while the block runs; the name to read and write them by."""
    java = java_of(spark, "reading chosen files")
    cache = java.org.apache.iceberg.spark.SparkTableCache.get()
    manager = java.org.apache.iceberg.spark.ScanTaskSetManager.get()
    listed = java.java.util.ArrayList()
    for task in tasks:
        listed.add(task)
    name = str(uuid.uuid4())
    cache.add(name, loaded)
    manager.stageTasks(loaded, name, listed)
    try:
        yield name
    finally:
        cache.remove(name)
        manager.removeTasks(loaded, name)


def read_staged(spark: SparkSession, name: str) -> DataFrame:
    """The rows of staged tasks, without deleted rows."""
    return spark.read.format("iceberg").option("scan-task-set-id", name).load(name)


def unreadable(spark: SparkSession, loaded: Any, tasks: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The unreadable data files of these tasks, each with the reason.

    Failing groups are halved, so that a few unreadable files among many are found with few reads.
    """
    pending = [tasks]
    while pending:
        group = pending.pop()
        reason = _failure_of_reading(spark, loaded, group) if group else None
        if reason is None:
            continue
        if len(group) == 1:
            yield str(group[0].file().location()), reason
        else:
            middle = len(group) // 2
            pending += [group[middle:], group[:middle]]


def _failure_of_reading(spark: SparkSession, loaded: Any, tasks: Sequence[Any]) -> str | None:
    with staged(spark, loaded, tasks) as name:
        try:
            read_staged(spark, name).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not is_spark_error(error):
                raise
            return explanation(error)
    return None
