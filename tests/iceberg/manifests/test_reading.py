"""Manifest lists and manifests of every format, written by other libraries, are parsed by the specification."""

from __future__ import annotations

import datetime
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import manifest as peer
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record, TableVersion
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import (
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    open_manifest,
    read_manifest_list,
)
from tests.iceberg.manifests.avro_files import (
    a_file,
    a_manifest,
    an_entry,
    avro_file,
    column,
    entry_schema,
    list_bytes,
    list_schema,
    manifest_bytes,
    optional,
    read_manifest,
)

STATISTICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
EXISTING, ADDED, DELETED = EntryStatus.EXISTING, EntryStatus.ADDED, EntryStatus.DELETED
FULL = a_file(
    column_sizes={1: 4096, 2: 100_000},
    value_counts={1: 10, 2: 10},
    null_value_counts={1: 0, 2: 3},
    nan_value_counts={},
    lower_bounds={1: b"\x01\x00\x00\x00", 2: b""},
    upper_bounds={1: b"\xff\xff\xff\x7f", 2: b"zz"},
    key_metadata=b"key",
    split_offsets=(4, 134_217_728),
    sort_order_id=1,
)


class TestLists:
    MANIFEST = a_manifest(
        length=7_123,
        partition_spec_id=3,
        content=ManifestContent.DELETES.value,
        sequence_number=9,
        min_sequence_number=4,
        added_snapshot_id=8_744_736_658_442_914_487,
        added_files_count=1,
        existing_files_count=2,
        deleted_files_count=3,
        added_rows_count=10,
        existing_rows_count=20,
        deleted_rows_count=30,
        partitions=(FieldSummary(True, False, b"\x01", b"\x09"), FieldSummary(False, None, None, None)),
        key_metadata=b"secret",
        first_row_id=1_000,
    )

    def test_format_3_lists_have_all_fields(self) -> None:
        assert read_manifest_list(list_bytes([self.MANIFEST], version=3)) == [self.MANIFEST]

    def test_format_2_has_no_row_ids(self) -> None:
        assert read_manifest_list(list_bytes([self.MANIFEST])) == [self.MANIFEST._replace(first_row_id=None)]

    def test_format_1_defaults_to_data_and_sequence_number_zero(self) -> None:
        (read,) = read_manifest_list(list_bytes([self.MANIFEST], version=1))
        expected = self.MANIFEST._replace(content=0, sequence_number=0, min_sequence_number=0, first_row_id=None)
        assert read == expected

    def test_counts_of_format_1_can_be_missing(self) -> None:
        counts = ("added_files_count", "existing_files_count", "deleted_files_count")
        rows = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
        blank: dict[str, Any] = dict.fromkeys((*counts, *rows))
        bare = self.MANIFEST._replace(partitions=None, key_metadata=None, **blank)
        (read,) = read_manifest_list(list_bytes([bare], version=1))
        assert [getattr(read, name) for name in (*counts, *rows)] == [None] * 6
        assert read.partitions is None

    def test_empty_list_has_no_lines(self) -> None:
        assert read_manifest_list(list_bytes([])) == []

    def test_order_is_preserved(self) -> None:
        many = [a_manifest(f"s3://lake/t/metadata/m{number}.avro") for number in range(2_000)]
        assert read_manifest_list(list_bytes(many)) == many

    def test_unknown_content_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="unknown content"):
            read_manifest_list(list_bytes([a_manifest(content=2)]))


class TestInheritance:
    """Omitted fields of an entry are inherited from its manifest's line in the list."""

    def test_added_file_inherits_snapshot_and_sequence_numbers(self) -> None:
        (read,) = read_manifest(manifest_bytes([an_entry(FULL)]), a_manifest(sequence_number=7, added_snapshot_id=70))
        assert read == ManifestEntry(ADDED, 70, 7, 7, FULL)

    def test_written_values_override_inherited_ones(self) -> None:
        entry = an_entry(FULL, ADDED, snapshot_id=5, sequence_number=3, file_sequence_number=4)
        (read,) = read_manifest(manifest_bytes([entry]), a_manifest(sequence_number=7, added_snapshot_id=70))
        assert read == entry

    def test_file_sequence_number_is_inherited_separately(self) -> None:
        (read,) = read_manifest(manifest_bytes([an_entry(FULL, sequence_number=3)]), a_manifest(sequence_number=7))
        assert (read.sequence_number, read.file_sequence_number) == (3, 7)

    @pytest.mark.parametrize("status", [EXISTING, DELETED])
    def test_only_added_files_can_lack_sequence_numbers(self, status: EntryStatus) -> None:
        data = manifest_bytes([an_entry(FULL, status, snapshot_id=5)])
        with pytest.raises(InvalidInput, match="no sequence number"):
            read_manifest(data, a_manifest(sequence_number=7))

    @pytest.mark.parametrize("status", [EXISTING, DELETED])
    def test_file_sequence_number_of_older_writers_is_unknown(self, status: EntryStatus) -> None:
        data = manifest_bytes([an_entry(FULL, status, snapshot_id=5, sequence_number=2)])
        (read,) = read_manifest(data, a_manifest(sequence_number=7))
        assert (read.sequence_number, read.file_sequence_number) == (2, None)

    @pytest.mark.parametrize("status", list(EntryStatus))
    def test_files_of_format_1_have_sequence_number_zero(self, status: EntryStatus) -> None:
        data = manifest_bytes([an_entry(FULL, status, snapshot_id=5)], version=1)
        (read,) = read_manifest(data, a_manifest(sequence_number=0, min_sequence_number=0))
        assert read == ManifestEntry(status, 5, 0, 0, FULL)

    def test_files_have_the_spec_of_the_manifest(self) -> None:
        (read,) = read_manifest(manifest_bytes([an_entry(FULL)]), a_manifest(partition_spec_id=4))
        assert read.data_file.spec_id == 4


class TestRowIds:
    def rows(self, entries: list[ManifestEntry], first_row_id: int | None) -> list[int | None]:
        data = manifest_bytes(entries, version=3)
        return [
            entry.data_file.first_row_id
            for entry in read_manifest(data, a_manifest(sequence_number=9, first_row_id=first_row_id))
        ]

    def test_files_without_first_row_id_are_numbered_consecutively(self) -> None:
        entries = [an_entry(a_file(f"s3://lake/t/data/{n}", record_count=n)) for n in (10, 20, 30)]
        assert self.rows(entries, 1_000) == [1_000, 1_010, 1_030]

    def test_file_with_first_row_id_keeps_it(self) -> None:
        entries = [
            an_entry(a_file(record_count=10)),
            an_entry(a_file(record_count=20, first_row_id=5), EXISTING, snapshot_id=1, sequence_number=1),
            an_entry(a_file(record_count=30)),
        ]
        assert self.rows(entries, 1_000) == [1_000, 5, 1_010]

    def test_earlier_existing_files_get_a_first_row_id(self) -> None:
        entries = [an_entry(a_file(record_count=10), EXISTING, snapshot_id=1, sequence_number=1), an_entry(a_file())]
        assert self.rows(entries, 7) == [7, 17]

    def test_deleted_files_get_no_first_row_id(self) -> None:
        entries = [an_entry(a_file(), DELETED, snapshot_id=1, sequence_number=1), an_entry(a_file())]
        assert self.rows(entries, 7) == [None, 7]

    def test_manifest_without_first_row_id_assigns_none(self) -> None:
        assert self.rows([an_entry(a_file(first_row_id=5)), an_entry(a_file())], None) == [None, None]

    def test_delete_files_get_no_first_row_id(self) -> None:
        vector = a_file(
            content=FileContent.POSITION_DELETES.value,
            file_format="PUFFIN",
            referenced_data_file="s3://lake/t/data/a.parquet",
            content_offset=4,
            content_size_in_bytes=60,
        )
        data = manifest_bytes([an_entry(vector)], version=3, content="deletes")
        (read,) = read_manifest(data, a_manifest(content=1, first_row_id=7))
        assert read.data_file == vector


class TestFiles:
    def test_equality_deletes_have_column_ids(self) -> None:
        deletes = a_file(content=FileContent.EQUALITY_DELETES.value, equality_ids=(1, 3))
        (read,) = read_manifest(manifest_bytes([an_entry(deletes)], content="deletes"), a_manifest(content=1))
        assert read.data_file == deletes

    @pytest.mark.parametrize(("version", "codec"), [(1, "null"), (2, "deflate"), (3, "zstandard"), (2, "snappy")])
    def test_every_codec_is_decompressed(self, version: int, codec: str) -> None:
        entries = [
            an_entry(FULL._replace(file_path=f"s3://lake/t/data/{n}.parquet"), snapshot_id=100) for n in range(500)
        ]
        data = manifest_bytes(entries, version=version, codec=codec)
        read = read_manifest(data, a_manifest(sequence_number=0))
        assert [entry.data_file for entry in read] == [entry.data_file for entry in entries]

    def test_header_has_the_manifest_properties(self) -> None:
        opened = open_manifest(manifest_bytes([], version=3, content="deletes", spec_id=2))
        assert (opened.format_version, opened.content, opened.partition_spec_id) == (3, ManifestContent.DELETES, 2)

    def test_header_of_format_1_lacks_the_content(self) -> None:
        assert open_manifest(manifest_bytes([], version=1)).content is None

    def test_statistics_of_selected_columns_are_read(self) -> None:
        (read,) = read_manifest(manifest_bytes([an_entry(FULL)]), a_manifest(), columns=frozenset({2, 9}))
        expected = FULL._replace(
            column_sizes={2: 100_000},
            value_counts={2: 10},
            null_value_counts={2: 3},
            lower_bounds={2: b""},
            upper_bounds={2: b"zz"},
        )
        assert read.data_file == expected

    def test_statistics_of_no_columns_are_skipped(self) -> None:
        (read,) = read_manifest(manifest_bytes([an_entry(FULL)]), a_manifest(), columns=frozenset())
        blank: dict[str, Any] = dict.fromkeys(STATISTICS)
        assert read.data_file == FULL._replace(**blank)

    def test_unknown_status_is_rejected(self) -> None:
        with pytest.raises(InvalidInput, match="unknown status"):
            read_manifest(manifest_bytes([an_entry(FULL, 3)]), a_manifest())

    def test_unknown_content_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="unknown content"):
            read_manifest(manifest_bytes([an_entry(a_file(content=3))]), a_manifest())


PRICE = {"type": "fixed", "name": "price", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 2}
PARTITION = (
    ("flag", optional("boolean"), 1000),
    ("day", optional({"type": "int", "logicalType": "date"}), 1001),
    ("at", optional({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}), 1002),
    ("share", optional("double"), 1003),
    ("price", optional(PRICE), 1004),
    ("cost", optional("price"), 1005),
    ("id", optional({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}), 1006),
    ("name", optional("string"), 1007),
    ("raw", optional("bytes"), 1008),
    ("nothing", optional("float"), 1009),
)
VALUES = (
    True,
    19_723,
    1_704_067_200_000_001,
    0.25,
    Decimal("-123456789012345678901234567890123456.78"),
    Decimal("0.01"),
    UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    "größer",
    b"\x00\xff",
    None,
)


def partitioned() -> bytes:
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=19_723)
    at = datetime.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=datetime.UTC)
    written: list[Any] = list(VALUES)
    written[1], written[2], written[6] = day, at, UUID(str(VALUES[6])).bytes
    return manifest_bytes([an_entry(a_file(partition=tuple(written)))], partition=PARTITION)


class TestPartitions:
    def test_partition_values_have_iceberg_units(self) -> None:
        (read,) = read_manifest(partitioned(), a_manifest())
        assert read.data_file.partition == VALUES

    def test_partition_fields_have_the_requested_order(self) -> None:
        (read,) = read_manifest(partitioned(), a_manifest(), partition_fields=[1007, 1042, 1000])
        assert read.data_file.partition == ("größer", None, True)

    def test_partition_value_of_a_collection_type_is_rejected(self) -> None:
        partition = (("tags", {"type": "array", "items": "int"}, 1000),)
        data = manifest_bytes([an_entry(a_file(partition=([1],)))], partition=partition)
        with pytest.raises(InvalidInput, match="not supported for partition values"):
            read_manifest(data, a_manifest())


class TestFieldIds:
    def test_fields_are_matched_by_id_under_other_names(self) -> None:
        schema = entry_schema(2)
        record = {
            "status": 1, "snapshot_id": None, "sequence_number": None, "file_sequence_number": None,
            "data_file": {
                "content": 0, "uri": "s3://lake/x", "file_format": "AVRO", "partition": {},
                "record_count": 1, "file_size_in_bytes": 2,
            },
        }  # fmt: skip
        for field in schema["fields"][-1]["type"]["fields"]:
            if field["name"] == "file_path":
                field["name"] = "uri"
        (read,) = read_manifest(avro_file(schema, [record]), a_manifest())
        assert read.data_file.file_path == "s3://lake/x"

    def test_field_without_id_is_not_matched_by_name_if_others_have_ids(self) -> None:
        schema = list_schema(2)
        del schema["fields"][0]["field-id"]
        with pytest.raises(InvalidInput, match=r"lacks a field.*path.*500"):
            read_manifest_list(avro_file(schema, []))

    def test_fields_are_matched_by_name_without_ids(self) -> None:
        def without_ids(document: Any) -> Any:
            if isinstance(document, dict):
                return {key: without_ids(value) for key, value in document.items() if key != "field-id"}
            return [without_ids(one) for one in document] if isinstance(document, list) else document

        manifest = a_manifest(added_files_count=3)
        written = fastavro.reader(io.BytesIO(list_bytes([manifest], version=1)))
        data = avro_file(without_ids(list_schema(1)), list(written))
        assert read_manifest_list(data) == [manifest._replace(sequence_number=0, min_sequence_number=0)]

    def test_unknown_fields_are_skipped(self) -> None:
        schema = list_schema(2)
        unknown = {
            "type": "record",
            "name": "unknown",
            "fields": [
                column("numbers", {"type": "array", "items": "long"}, 9001),
                column("texts", {"type": "map", "values": "string"}, 9002),
                column("several", ["null", "int", "string", "double", "boolean"], 9003),
                column("choice", {"type": "enum", "name": "choice", "symbols": ["a", "b"]}, 9004),
                column("hash", {"type": "fixed", "name": "hash", "size": 3}, 9005),
                column("share", "float", 9006),
                column("nested", {"type": "array", "items": {"type": "array", "items": ["null", "bytes"]}}, 9007),
            ],
        }
        schema["fields"].insert(1, column("unknown", unknown, 9000))
        value = {
            "numbers": [1, -300, 2**62],
            "texts": {"a": "b", "c": "d"},
            "several": 0.5,
            "choice": "b",
            "hash": b"abc",
            "share": 1.5,
            "nested": [[b"x", None], []],
        }
        manifests = [a_manifest(f"s3://lake/{n}") for n in range(3)]
        records = [{**record, "unknown": value} for record in fastavro.reader(io.BytesIO(list_bytes(manifests)))]  # type: ignore[dict-item]  # records of this schema are dicts
        assert read_manifest_list(avro_file(schema, records)) == manifests


SPEC = PartitionSpec(
    PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"),
    PartitionField(source_id=3, field_id=1001, transform=DayTransform(), name="day"),
    spec_id=1,
)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "at", TimestampType(), required=False),
)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_manifests_of_pyiceberg_are_read_as_pyiceberg_reads_them(
    tmp_path: Path, version: TableVersion, codec: str
) -> None:
    files = PyArrowFileIO()
    manifest_path, list_path = f"{tmp_path}/m.avro", f"{tmp_path}/snap.avro"
    with peer.write_manifest(version, SPEC, SCHEMA, files.new_output(manifest_path), 77, codec) as writer:  # type: ignore[arg-type]  # a codec's name
        for number in range(20):
            file = peer.DataFile.from_args(
                content=peer.DataFileContent.DATA,
                file_path=f"s3://lake/t/data/{number}.parquet",
                file_format=peer.FileFormat.PARQUET,
                partition=Record("eu" if number % 2 else None, 19_000 + number),
                record_count=number,
                file_size_in_bytes=1_000 + number,
                column_sizes={1: 100, 2: 3_000},
                value_counts={1: number},
                null_value_counts={1: 0},
                nan_value_counts={},
                lower_bounds={1: b"\x00" * 8},
                upper_bounds={1: b"\x7f" * 8},
                split_offsets=[4],
                sort_order_id=None,
                equality_ids=None,
                key_metadata=None,
                spec_id=1,
            )
            writer.add_entry(
                peer.ManifestEntry.from_args(status=peer.ManifestEntryStatus.ADDED, snapshot_id=77, data_file=file)
            )
    with peer.write_manifest_list(version, files.new_output(list_path), 77, None, 5, codec) as writer_of_list:  # type: ignore[arg-type]  # a codec's name
        writer_of_list.add_manifests([writer.to_manifest_file()])

    (theirs,) = peer.read_manifest_list(files.new_input(list_path))
    (ours,) = read_manifest_list(Path(list_path).read_bytes())
    assert_same_manifest(ours, theirs)
    entries = read_manifest(Path(manifest_path).read_bytes(), ours)
    expected = theirs.fetch_manifest_entry(files, discard_deleted=False)
    assert len(entries) == len(expected) == 20
    for entry, other in zip(entries, expected, strict=True):
        assert (entry.status, entry.snapshot_id) == (other.status.value, other.snapshot_id)
        assert (entry.sequence_number, entry.file_sequence_number) == (
            other.sequence_number,
            other.file_sequence_number,
        )
        assert_same_file(entry.data_file, other.data_file)


def assert_same_manifest(ours: ManifestFile, theirs: peer.ManifestFile) -> None:
    assert (ours.path, ours.length) == (theirs.manifest_path, theirs.manifest_length)
    for name in ManifestFile._fields:
        if name not in ("path", "length", "content", "partitions", "first_row_id"):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.content == int(theirs.content)
    assert ours.partitions is not None
    assert theirs.partitions is not None
    for summary, other in zip(ours.partitions, theirs.partitions, strict=True):
        assert summary == (other.contains_null, other.contains_nan, other.lower_bound, other.upper_bound)


def assert_same_file(ours: DataFile, theirs: peer.DataFile) -> None:
    for name in (
        "file_path", "record_count", "file_size_in_bytes", "column_sizes", "value_counts", "null_value_counts",
        "nan_value_counts", "lower_bounds", "upper_bounds", "key_metadata", "equality_ids", "sort_order_id", "spec_id",
    ):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.file_format == theirs.file_format.value
    assert ours.partition == tuple(theirs.partition[at] for at in range(len(ours.partition)))
    assert ours.split_offsets == tuple(theirs.split_offsets or ())


LONGS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
COLUMNS = st.integers(min_value=0, max_value=2**31 - 1)
COUNTS = st.none() | st.dictionaries(COLUMNS, LONGS, max_size=4)
BOUNDS = st.none() | st.dictionaries(COLUMNS, st.binary(max_size=80), max_size=4)
FILES = st.builds(
    DataFile,
    content=st.sampled_from([0, 1, 2]),
    file_path=st.text(max_size=90),
    file_format=st.sampled_from(["PARQUET", "avro", "PUFFIN"]),
    spec_id=st.just(0),
    partition=st.tuples(st.none() | st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=9)),
    record_count=LONGS,
    file_size_in_bytes=LONGS,
    column_sizes=COUNTS,
    value_counts=COUNTS,
    null_value_counts=COUNTS,
    nan_value_counts=COUNTS,
    lower_bounds=BOUNDS,
    upper_bounds=BOUNDS,
    key_metadata=st.none() | st.binary(max_size=9),
    split_offsets=st.none() | st.lists(LONGS, max_size=4).map(tuple),
    equality_ids=st.none() | st.lists(COLUMNS, max_size=4).map(tuple),
    sort_order_id=st.none() | COLUMNS,
    first_row_id=st.none(),
    referenced_data_file=st.none() | st.text(max_size=9),
    content_offset=st.none() | LONGS,
    content_size_in_bytes=st.none() | LONGS,
)
ENTRIES = st.builds(
    ManifestEntry,
    status=st.sampled_from([0, 1, 2]),
    snapshot_id=LONGS,
    sequence_number=LONGS,
    file_sequence_number=LONGS,
    data_file=FILES,
)


@given(st.lists(ENTRIES, max_size=8), st.sampled_from(["null", "deflate", "snappy", "zstandard"]))
def test_manifests_round_trip(entries: list[ManifestEntry], codec: str) -> None:
    partition = (("bucket", optional("int"), 1000), ("name", optional("string"), 1001))
    data = manifest_bytes(entries, version=3, partition=partition, codec=codec)
    assert read_manifest(data, a_manifest()) == entries
    blank: dict[str, Any] = dict.fromkeys(STATISTICS)
    without = [entry._replace(data_file=entry.data_file._replace(**blank)) for entry in entries]
    assert read_manifest(data, a_manifest(), columns=frozenset()) == without


def test_schema_json_can_have_any_formatting() -> None:
    text = json.dumps(list_schema(2), indent=4)
    assert read_manifest_list(avro_file(json.loads(text), [])) == []
