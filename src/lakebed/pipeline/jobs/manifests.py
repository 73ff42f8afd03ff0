"""Manifests are rewritten so that there are few of them, and files that are read together are listed together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakebed.core.jobs import JobKind
from lakebed.core.sizes import MIB, format_bytes
from lakebed.pipeline.job import JobDefinition
from lakebed.pipeline.options import IntegerOption, Options, OptionUnit
from lakebed.pipeline.progress import Progress
from lakebed.pipeline.report import FileTotals, JobReport, ReportBuilder
from lakebed.pipeline.submit import run_program
from lakebed.pipeline.table_ref import CatalogTable

from ..commit_conflicts import retry_on_conflict
from ..files.table_shape import measure, properties_of, snapshot_ids
from ..spark.procedures import Row, call, rows
from ..spark.versions import ICEBERG_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET_SIZE_PROPERTY: Final = "commit.manifest.target-size-bytes"
DEFAULT_TARGET_BYTES: Final = 8 * MIB

_LOSES_ROW_IDS: Final = frozenset({"1.10.0", "1.10.1", "1.11.0"})
"""Versions whose rewritten manifests give rows other ids (apache/iceberg#16699), which the catalog does not let in."""

OPTIONS: Final = (
    IntegerOption("spec-id", "the partition spec whose manifests are rewritten; by default all, one after the other"),
    IntegerOption(
        "target-manifest-size-bytes",
        f"the size aimed at. It is a property of the table ({TARGET_SIZE_PROPERTY}), which is set to it",
        1024,
        OptionUnit.BYTES,
    ),
)


@dataclass(frozen=True, slots=True)
class ManifestGroup:
    """The manifests of a partition spec that list the same kind of files, data or deletes."""

    spec_id: int
    count: int
    bytes: int

    def wanted(self, target_bytes: int) -> int:
        """How many there would be."""
        return max(math.ceil(self.bytes / target_bytes), 1)


def run(spark: SparkSession, table: CatalogTable, options: Options, *, dry_run: bool, progress: Progress) -> JobReport:
    """Rewrite the manifests of a table."""
    draft = ReportBuilder(JobKind.REWRITE_MANIFESTS, table, dry_run=dry_run)
    progress.stage("measuring")
    draft.before = draft.after = measure(spark, table)
    if draft.before.snapshot is None:
        draft.skip("table", "nothing was written to it yet")
        return draft.end()
    properties = properties_of(spark, table)
    if int(properties.get("format-version", "2")) >= 3 and ICEBERG_VERSION in _LOSES_ROW_IDS:
        draft.skip(
            "manifests", f"Iceberg {ICEBERG_VERSION} would give the rows of a table of format version 3 other ids"
        )
        return draft.end()
    asked = options.number("target-manifest-size-bytes")
    stated = int(properties.get(TARGET_SIZE_PROPERTY, DEFAULT_TARGET_BYTES))
    target = asked or stated
    worth = _worth_rewriting(_listed(spark, table), options.number("spec-id"), target, draft)
    if dry_run or not worth:
        draft.read = FileTotals(sum(one.count for one in worth), sum(one.bytes for one in worth))
        draft.wrote = FileTotals(sum(one.wanted(target) for one in worth))
        return draft.end()
    if target != stated:
        spark.sql(f"ALTER TABLE {table.sql} SET TBLPROPERTIES ('{TARGET_SIZE_PROPERTY}' = '{target}')")
    known = snapshot_ids(spark, table)
    for spec_id in sorted({one.spec_id for one in worth}):
        progress.stage(f"rewriting manifests of partition spec {spec_id}")
        _rewrite(spark, table, spec_id, draft, progress)
    draft.after = measure(spark, table)
    draft.saved = FileTotals(draft.read.files - draft.wrote.files)
    draft.snapshots = [
        row["snapshot_id"]
        for row in rows(spark, f"SELECT snapshot_id, operation FROM {table.inside('snapshots')}")
        if row["snapshot_id"] not in known and row["operation"] == "replace"
    ]
    draft.changed = bool(draft.snapshots)
    return draft.end()


def _worth_rewriting(
    listed: Sequence[ManifestGroup], spec_id: int | None, target_bytes: int, draft: ReportBuilder
) -> list[ManifestGroup]:
    """Of the specs that are to be looked at, those of which there would be fewer manifests."""
    looked_at = [one for one in listed if spec_id in (None, one.spec_id)]
    if not looked_at:
        draft.skip("manifests", f"none is of partition spec {spec_id}")
    worth: list[ManifestGroup] = []
    for spec in sorted({one.spec_id for one in looked_at}):
        kinds = [one for one in looked_at if one.spec_id == spec]
        if any(one.count > one.wanted(target_bytes) for one in kinds):
            worth += kinds
        else:
            draft.skip(
                f"manifests of partition spec {spec}",
                f"fewer than {sum(one.count for one in kinds)} would be larger than {format_bytes(target_bytes)}",
            )
    return worth


def _rewrite(spark: SparkSession, table: CatalogTable, spec_id: int, draft: ReportBuilder, progress: Progress) -> None:
    def attempt() -> Row:
        (done,) = call(spark, table, "rewrite_manifests", spec_id=spec_id)
        return done

    done = retry_on_conflict(spark, table, progress, attempt)
    draft.read += FileTotals(done["rewritten_manifests_count"])
    draft.wrote += FileTotals(done["added_manifests_count"])


def _listed(spark: SparkSession, table: CatalogTable) -> list[ManifestGroup]:
    found = rows(
        spark,
        "SELECT partition_spec_id AS spec_id, count(*) AS files, sum(length) AS bytes"
        f" FROM {table.inside('manifests')} GROUP BY partition_spec_id, content",
    )
    return [ManifestGroup(row["spec_id"], row["files"], row["bytes"]) for row in found]


JOB: Final = JobDefinition(JobKind.REWRITE_MANIFESTS, "Rewrites manifests into few of a good size", OPTIONS, run)


def main() -> int:
    """Run as a program."""
    return run_program(JOB)


if __name__ == "__main__":
    raise SystemExit(main())
