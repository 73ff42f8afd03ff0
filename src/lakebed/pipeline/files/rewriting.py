"""Rewrites chosen files of a table to its current partition spec, and replaces them in one commit.

It uses the parts of Iceberg's own rewrite action, which can choose files only by size. Row ids are kept, and deletes of
these files alone are applied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..report import FileTotals
from ..spark.iceberg_jvm import each, java_map, java_of
from .staged_scans import read_staged, staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURPOSE: Final = "rewriting chosen files"


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """Replaced files."""

    snapshot: int
    paths: set[str]
    read: FileTotals
    wrote: FileTotals


def rewrite_files(
    spark: SparkSession,
    loaded: Any,  # Any, here and below: Java objects
    tasks: Sequence[Any],
    target_bytes: int,
) -> RewrittenFiles:
    """Rewrite the files of these tasks and commit the replacement.

    `loaded` is the table as planned on. If these files were changed or deleted since, the commit fails and the new
    files are removed.
    """
    java = java_of(spark, PURPOSE)
    starting = int(loaded.currentSnapshot().snapshotId())
    size = sum(int(task.file().fileSizeInBytes()) for task in tasks)
    group = _group(java, loaded, tasks, target_bytes, size)
    coordinator = java.org.apache.iceberg.spark.FileRewriteCoordinator.get()
    manager = java.org.apache.iceberg.actions.RewriteDataFilesCommitManager(loaded, starting, True, java_map(spark, {}))
    with staged(spark, loaded, tasks) as name:
        try:
            (
                read_staged(spark, name)
                .write.format("iceberg")
                .option("rewritten-file-scan-task-set-id", name)
                .option("target-file-size-bytes", str(target_bytes))
                .option("output-spec-id", str(loaded.spec().specId()))
                # Rows of one old file may go to many partitions: the shuffle groups them, so that each gets few files.
                .option("distribution-mode", "range")
                .mode("append")
                .save(name)
            )
            group.setOutputFiles(coordinator.fetchNewFiles(loaded, name))
        finally:
            coordinator.clearRewrite(loaded, name)
    groups = java.java.util.HashSet()
    groups.add(group)
    manager.commitOrClean(groups)
    loaded.refresh()
    written = [(int(file.fileSizeInBytes()), int(file.recordCount())) for file in each(group.addedFiles())]
    return RewrittenFiles(
        int(loaded.currentSnapshot().snapshotId()),
        {str(task.file().location()) for task in tasks},
        FileTotals(len(tasks), size, sum(int(task.file().recordCount()) for task in tasks)),
        FileTotals(len(written), sum(one[0] for one in written), sum(one[1] for one in written)),
    )


def _group(java: Any, loaded: Any, tasks: Sequence[Any], target_bytes: int, size: int) -> Any:
    actions = java.org.apache.iceberg.actions
    spec = loaded.spec()
    info = (
        actions.ImmutableRewriteDataFiles.FileGroupInfo.builder()
        .globalIndex(1)
        .partitionIndex(1)
        .partition(java.org.apache.iceberg.data.GenericRecord.create(spec.partitionType()))
        .build()
    )
    listed = java.java.util.ArrayList()
    for task in tasks:
        listed.add(task)
    outputs = max(1, math.ceil(size / target_bytes))
    return actions.RewriteFileGroup(info, listed, spec.specId(), target_bytes, max(size // outputs, 1), outputs)
