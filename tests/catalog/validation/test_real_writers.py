"""Tables written by PyIceberg: every commit passes, on both levels."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakebed.catalog.tables.files import FileStat
from lakebed.catalog.validation import CommitValidator, ValidationLevel
from lakebed.core.errors import NotFound
from lakebed.iceberg.metadata import TableMetadata as OurMetadata
from lakebed.iceberg.metadata import parse_table

LOCATION = "s3://lake/warehouse/t"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False), NestedField(2, "region", StringType(), required=False)
)
BY_REGION = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"))


class LocalFiles:
    """A folder that represents `s3://`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, location: str) -> Path:
        return self._root / location.removeprefix("s3://")

    async def read(self, location: str, limit: int) -> bytes:
        if not self.path(location).exists():
            raise NotFound(location)
        return self.path(location).read_bytes()

    async def fetch(self, location: str, limit: int) -> tuple[bytes, FileStat]:
        return await self.read(location, limit), self._facts(location)

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        return {place: self._facts(place) if self.path(place).exists() else None for place in locations}

    def _facts(self, location: str) -> FileStat:
        stat = self.path(location).stat()
        return FileStat(stat.st_size, str(stat.st_mtime_ns), int(stat.st_mtime * 1000))


class LocalIO(PyArrowFileIO):
    """Reads and writes `s3://` in a folder."""

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        return SubTreeFileSystem(self.properties["root"], LocalFileSystem())

    def new_output(self, location: str) -> PyArrowFile:
        LocalFiles(Path(self.properties["root"])).path(location).parent.mkdir(parents=True, exist_ok=True)
        return super().new_output(location)


class Recorder(NoopCatalog):
    """A catalog of one table, which records the metadata after each commit."""

    def __init__(self, root: Path, version: int, spec: PartitionSpec) -> None:
        super().__init__("recorder")
        self.io = LocalIO({"root": str(root)})
        metadata = new_table_metadata(SCHEMA, spec, UNSORTED_SORT_ORDER, LOCATION, {"format-version": str(version)})
        self.table = Table(("ns", "t"), metadata, f"{LOCATION}/metadata/0.json", self.io, self)
        self.history = [self.table.metadata]

    def load_table(self, identifier: Any) -> Table:
        return self.table

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        for requirement in requirements:
            requirement.validate(self.table.metadata)
        metadata = update_table_metadata(self.table.metadata, updates)
        where = f"{LOCATION}/metadata/{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(metadata, self.io.new_output(where))
        self.table = Table(("ns", "t"), metadata, where, self.io, self)
        self.history.append(metadata)
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": where})


def rows(*ids: int, region: str = "eu") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "region": pa.array([region] * len(ids), pa.string())})


def append_thrice(table: Table) -> None:
    for number in range(3):
        table.append(rows(number, number + 100, region="eu" if number else "us"))


def merge_appends(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
    append_thrice(table)


def delete_whole_files(table: Table) -> None:
    append_thrice(table)
    table.delete("region = 'us'")


def delete_some_rows(table: Table) -> None:
    append_thrice(table)
    table.delete("id = 1")


def delete_all(table: Table) -> None:
    append_thrice(table)
    table.delete("id > -1")
    table.append(rows(7))


def overwrite(table: Table) -> None:
    table.overwrite(rows(1, 2))
    table.overwrite(rows(3))
    table.overwrite(rows(4), overwrite_filter="id = 3")


def upsert(table: Table) -> None:
    append_thrice(table)
    table.upsert(rows(1, 8), join_cols=["id"])


def evolve(table: Table) -> None:
    table.append(rows(1))
    with table.update_schema() as update:
        update.add_column("note", StringType())
    with table.update_schema() as update:
        update.rename_column("note", "remark")
    with table.update_spec() as spec:
        spec.add_identity("id")
    table.append(pa.table({"id": pa.array([2], pa.int64()), "region": ["eu"], "remark": ["x"]}))
    with table.update_schema() as update:
        update.delete_column("remark")


def branch_and_tag(table: Table) -> None:
    table.append(rows(1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.manage_snapshots().create_branch(snapshot.snapshot_id, "b").create_tag(snapshot.snapshot_id, "t").commit()
    table.append(rows(2), branch="b")
    table.append(rows(3))


WORK: list[Callable[[Table], None]] = [
    append_thrice,
    merge_appends,
    delete_whole_files,
    delete_some_rows,
    delete_all,
    overwrite,
    upsert,
    evolve,
    branch_and_tag,
]


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_REGION], ids=["plain", "partitioned"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("work", WORK)
@pytest.mark.filterwarnings("ignore::UserWarning:pyiceberg")
async def test_commits_of_pyiceberg_are_valid(
    work: Callable[[Table], None], version: int, spec: PartitionSpec, tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path, version, spec)
    work(recorder.table)
    for level in ValidationLevel:
        validator, files = CommitValidator(level=level), LocalFiles(tmp_path)
        added = 0
        for before, after in pairwise(recorder.history):
            report = await validator.check(files, _ours(before), _ours(after))
            added += sum(snapshot.data_files_added for snapshot in report.snapshots)
        assert added > 0


async def test_table_of_pyiceberg_is_adopted(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 2, BY_REGION)
    delete_some_rows(recorder.table)
    for level in ValidationLevel:
        report = await CommitValidator(level=level).check(
            LocalFiles(tmp_path), None, _ours(recorder.history[-1]), adopted=True
        )
        assert len(report.snapshots) == 1


def _ours(metadata: TableMetadata) -> OurMetadata:
    return parse_table(metadata.model_dump_json().encode())
