"""Reading a few chosen files of a table with Spark, as Iceberg's own rewrites do: a set of scan tasks is staged under a
name, and Spark reads that.
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

# Any: objects of Java's.


def file_tasks(loaded: Any, snapshot: int) -> list[Any]:
    """A task for each data file of a snapshot, with the delete files that go with it."""
    return list(closing_each(loaded.newScan().useSnapshot(snapshot).ignoreResiduals().planFiles()))


@contextmanager
def staged(spark: SparkSession, loaded: Any, tasks: Sequence[Any]) -> Iterator[str]:
    """Stage tasks for the time of a block; the name that Spark reads and writes them by."""
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
    """The rows of staged tasks; what is deleted of them is left out."""
    return spark.read.format("iceberg").option("scan-task-set-id", name).load(name)


def unreadable(spark: SparkSession, loaded: Any, tasks: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The data files of these tasks that cannot be read, each with why.

    Groups that fail are halved until one file is left, so that a few among many are found with few reads.
    """
    pending = [tasks]
    while pending:
        group = pending.pop()
        why = _failure_of_reading(spark, loaded, group) if group else None
        if why is None:
            continue
        if len(group) == 1:
            yield str(group[0].file().location()), why
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
