"""Spark jobs to measure: compaction by the pipeline's job, and MERGE.

A scenario writes its tables once on each site. After each round the table is rolled back and the files of the round
are removed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from benchmarks.pipeline import rows
from benchmarks.pipeline.rows import Files
from benchmarks.pipeline.site import Site
from lakebed.core.jobs import JobKind, Option
from lakebed.core.sizes import MIB
from lakebed.pipeline.files.table_shape import current_snapshot
from lakebed.pipeline.jobs import find_job
from lakebed.pipeline.spark.procedures import call
from lakebed.pipeline.table_ref import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET_BYTES: Final = 128 * MIB
GOAL: Final = 0.9
"""Fraction of the bare disk's speed."""
UPDATED_ONE_IN: Final = 20
"""Rows per update of a MERGE; as many rows are inserted."""


class Scenario(ABC):
    """One kind of job."""

    name: str
    goal = GOAL

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        """The snapshot at the start of a round, by site."""

    @property
    @abstractmethod
    def title(self) -> str:
        """For the table of results."""

    def table(self, site: Site) -> CatalogTable:
        """The table that the job changes."""
        return site.table(self.name)

    def prepare(self, site: Site) -> None:
        """Write the tables."""
        self.write(site)
        self._first[site.name] = self._snapshot(site)

    @abstractmethod
    def write(self, site: Site) -> None:
        """Write the tables, in the same files on every site."""

    @abstractmethod
    def work(self, site: Site) -> None:
        """Run the measured job."""

    @abstractmethod
    def outcome(self, site: Site) -> DataFrame:
        """The expected rows after the job, generated without a table."""

    @abstractmethod
    def fault(self, before: Files, after: Files) -> str | None:
        """Describe what is wrong with the files after the job, if anything."""

    def restore(self, site: Site) -> None:
        """Roll the table back to its state before the job."""
        table, first = self.table(site), self._first[site.name]
        last = self._snapshot(site)
        if last == first:
            return
        call(site.spark, table, "rollback_to_snapshot", snapshot_id=first)
        call(site.spark, table, "expire_snapshots", snapshot_ids=[last])

    def _snapshot(self, site: Site) -> int:
        found = current_snapshot(site.spark, self.table(site))
        if found is None:
            raise RuntimeError(f"nothing was written. site={site.name} table={self.name}")
        return found


class Compaction(Scenario):
    """Compacts many small files into few, with the job that workers run."""

    name = "compaction"

    def __init__(self, files: int) -> None:
        super().__init__()
        self._files = files

    @property
    def title(self) -> str:
        return f"compaction of {self._files:,} files of 1 MiB into files of {TARGET_BYTES // MIB} MiB"

    def write(self, site: Site) -> None:
        """One file for each MiB."""
        rows.write(self.outcome(site), self.table(site))

    def work(self, site: Site) -> None:
        """Run the whole job: measure, plan, rewrite, commit."""
        options: dict[str, Option] = {"target-file-size-bytes": TARGET_BYTES}
        report = find_job(JobKind.COMPACT).do(site.spark, self.table(site), options)
        if report.read.files != self._files:
            raise RuntimeError(f"not all files were compacted. site={site.name} report={report}")

    def outcome(self, site: Site) -> DataFrame:
        """The same rows."""
        return rows.numbered(site, 0, self._files * rows.ROWS_A_MIB, self._files)

    def fault(self, before: Files, after: Files) -> str | None:
        """Check that no more files remain than the bytes require, and one for the rest."""
        most = before.bytes // TARGET_BYTES + 2
        return f"{after.count} files are left, at most {most} were expected" if after.count > most else None


class Merge(Scenario):
    """Merges changes of a tenth of the rows: half updates all over the table, half inserts."""

    name = "merge"

    def __init__(self, count: int) -> None:
        super().__init__()
        self._rows = count
        self._changes = count // UPDATED_ONE_IN
        """Updates, and as many inserts."""

    @property
    def title(self) -> str:
        return f"MERGE of {self._changes:,} updates and {self._changes:,} inserts into {self._rows:,} rows"

    def _source(self, site: Site) -> CatalogTable:
        return site.table("changes")

    def _rows_before(self, site: Site) -> DataFrame:
        parts = max(1, self._rows // (rows.ROWS_A_MIB * TARGET_BYTES // MIB))
        return rows.numbered(site, 0, self._rows, parts)

    def _source_rows(self, site: Site) -> DataFrame:
        updates = rows.numbered(site, 0, self._changes, 1, version=1, step=UPDATED_ONE_IN)
        inserts = rows.numbered(site, self._rows, self._changes, 1, version=1)
        return updates.unionAll(inserts)

    def write(self, site: Site) -> None:
        """Write the table in files of about the usual size, and the changes in two."""
        rows.write(self._rows_before(site), self.table(site))
        rows.write(self._source_rows(site), self._source(site))

    def work(self, site: Site) -> None:
        """Run one MERGE; it rewrites every file of the table."""
        site.sql(
            f"MERGE INTO {self.table(site).sql} t USING {self._source(site).sql} s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def outcome(self, site: Site) -> DataFrame:
        """The rows without an update, and all changes."""
        return self._rows_before(site).where(f"id % {UPDATED_ONE_IN} <> 0").unionAll(self._source_rows(site))

    def fault(self, before: Files, after: Files) -> str | None:
        """Check that the table grew by about the inserted rows."""
        grown = after.bytes / before.bytes
        return None if 1.0 < grown < 1.2 else f"the table has {grown:.2f} times the bytes it had"
