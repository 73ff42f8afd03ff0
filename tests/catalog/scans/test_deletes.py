"""The matching of delete files: each rule of the specification, then all of them compared with plain loops."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.catalog.scans.deletes import DELETED_PATH_ID, DeleteIndex
from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.partitions import BoundSpec, PartitionValues, bind_specs
from lakebed.iceberg.manifests import DataFile, FileContent, ManifestEntry
from tests.iceberg.expressions.columns import SCHEMA
from tests.iceberg.expressions.specs import a_table, spec_document
from tests.iceberg.manifests.avro_files import a_file, an_entry

TABLE = a_table(
    spec_document((("s", "identity"),), 0),
    spec_document((), 1),
    spec_document((("s", "void"),), 2),
    spec_document((("d", "identity"),), 3),
)
LAYOUTS: dict[int, BoundSpec] = bind_specs(TABLE, SCHEMA)
POSITIONS, VALUES = FileContent.POSITION_DELETES.value, FileContent.EQUALITY_DELETES.value
DATA = "s3://lake/t/data/a.parquet"


def entry(file: DataFile, number: int) -> ManifestEntry:
    return an_entry(file, sequence_number=number, file_sequence_number=number)


def data(number: int = 5, partition: PartitionValues = ("x",), path: str = DATA, **facts: Any) -> ManifestEntry:
    return entry(a_file(path, partition=partition, **facts), number)


def deletes(content: int, number: int, partition: PartitionValues = ("x",), **facts: Any) -> ManifestEntry:
    path = facts.pop("path", f"s3://lake/t/data/delete-{content}-{number}-{partition}.parquet")
    return entry(a_file(path, content=content, partition=partition, **facts), number)


def vector(number: int, about: str | None = DATA, **facts: Any) -> ManifestEntry:
    blank = {"path": "s3://lake/t/data/v.puffin", "content_offset": 4, "content_size_in_bytes": 40}
    return deletes(POSITIONS, number, file_format="PUFFIN", referenced_data_file=about, **{**blank, **facts})


def by_value(number: int, partition: PartitionValues = ("x",), **facts: Any) -> ManifestEntry:
    return deletes(VALUES, number, partition, **{"equality_ids": (1,), **facts})


def matching(file: ManifestEntry, *known: ManifestEntry) -> list[DataFile]:
    index = DeleteIndex(LAYOUTS, [SCHEMA])
    for one in known:
        index.add(one, LAYOUTS[one.data_file.spec_id].partition(one.data_file.partition))
    return index.matching(file, LAYOUTS[file.data_file.spec_id].partition(file.data_file.partition))


def applies(deleting: ManifestEntry, file: ManifestEntry) -> bool:
    return matching(file, deleting) == [deleting.data_file]


def test_position_deletes_apply_to_their_own_commit_and_before() -> None:
    assert not applies(deletes(POSITIONS, 4), data(5))
    assert applies(deletes(POSITIONS, 5), data(5))
    assert applies(deletes(POSITIONS, 6), data(5))


def test_equality_deletes_apply_to_earlier_commits_only() -> None:
    assert not applies(by_value(5), data(5))
    assert applies(by_value(6), data(5))


def test_deletes_apply_to_their_own_partition() -> None:
    for made in (deletes(POSITIONS, 6, ("y",)), by_value(6, ("y",))):
        assert not applies(made, data(5, ("x",)))
        assert applies(made, data(5, ("y",)))
    assert applies(deletes(POSITIONS, 6, (None,)), data(5, (None,)))


def test_partition_of_another_spec_is_another_partition() -> None:
    assert not applies(deletes(POSITIONS, 6, (), spec_id=1), data(5))
    assert applies(deletes(POSITIONS, 6, (), spec_id=1), data(5, (), spec_id=1))
    assert not applies(deletes(POSITIONS, 6, (None,), spec_id=2), data(5, (None,)))


@pytest.mark.parametrize(("spec_id", "partition"), [(1, ()), (2, (None,))])
def test_unpartitioned_equality_deletes_are_global(spec_id: int, partition: PartitionValues) -> None:
    made = by_value(6, partition, spec_id=spec_id)
    assert applies(made, data(5, ("x",)))
    assert applies(made, data(5, (), spec_id=1))
    assert not applies(made, data(6, ("x",)))


def test_floating_partitions_are_equal_by_their_bits() -> None:
    def at(value: float) -> bool:
        return applies(deletes(POSITIONS, 6, (value,), spec_id=3), data(5, (0.0,), spec_id=3))

    assert at(0.0)
    assert not at(-0.0)
    nan = float("nan")
    assert applies(deletes(POSITIONS, 6, (nan,), spec_id=3), data(5, (-nan,), spec_id=3))


def test_deletion_vector_replaces_position_deletes() -> None:
    older, everywhere = deletes(POSITIONS, 6), by_value(9, (), spec_id=1)
    named = deletes(POSITIONS, 7, referenced_data_file=DATA)
    made = vector(8)
    assert matching(data(5), older, named, made, everywhere) == [everywhere.data_file, made.data_file]
    assert matching(data(5, path="s3://lake/t/data/b.parquet"), older, made) == [older.data_file]


def test_deletion_vector_older_than_the_file_does_not_apply() -> None:
    older = deletes(POSITIONS, 5)
    assert matching(data(5), vector(4), older) == [older.data_file]
    assert applies(vector(5), data(5))


def test_two_deletion_vectors_for_one_file_are_invalid() -> None:
    with pytest.raises(InvalidInput, match="two deletion vectors"):
        matching(data(5), vector(6), vector(7, content_offset=50))
    with pytest.raises(InvalidInput, match="has no referenced data file"):
        matching(data(5), vector(6, about=None))
    assert len(matching(data(5), vector(6), vector(6, about="s3://lake/t/data/b.parquet"))) == 1


def test_file_scoped_deletes_do_not_apply_to_other_files() -> None:
    named = deletes(POSITIONS, 6, referenced_data_file=DATA)
    assert applies(named, data(5))
    assert not applies(named, data(5, path="s3://lake/t/data/b.parquet"))


def bounds(lower: bytes | None, upper: bytes | None, column: int = DELETED_PATH_ID) -> dict[str, Any]:
    return {
        "lower_bounds": {} if lower is None else {column: lower},
        "upper_bounds": {} if upper is None else {column: upper},
    }


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (DATA, DATA, True),
        ("s3://lake/t/data/b.parquet", "s3://lake/t/data/b.parquet", False),
        ("s3://lake/t/data", "s3://lake/t/datb", True),
        ("s3://lake/t/data/b", "s3://lake/t/data/c", False),
        (None, "s3://lake/t/c", False),
        (None, None, True),
    ],
)
def test_path_bounds_of_a_delete_file_limit_its_data_files(
    lower: str | None, upper: str | None, expected: bool
) -> None:
    stored = bounds(lower and lower.encode(), upper and upper.encode())  # type: ignore[arg-type]
    assert applies(deletes(POSITIONS, 6, **stored), data(5)) is expected


def test_invalid_path_bounds_exclude_nothing() -> None:
    assert applies(deletes(POSITIONS, 6, **bounds(b"\xff", b"\xff")), data(5))


def ints(low: int, high: int, nulls: int | None = 0) -> dict[str, Any]:
    stored = bounds(struct.pack("<i", low), struct.pack("<i", high), 1)
    return {**stored, "null_value_counts": {} if nulls is None else {1: nulls}}


@pytest.mark.parametrize(
    ("deleted", "stored", "expected"),
    [
        (ints(1, 4), ints(1, 10), True),
        (ints(1, 4), ints(4, 10), True),
        (ints(1, 4), ints(5, 10), False),
        (ints(11, 14), ints(5, 10), False),
        (ints(1, 4, nulls=1), ints(5, 10), False),
        (ints(1, 4, nulls=1), ints(5, 10, nulls=1), True),
        (ints(1, 4, nulls=None), ints(5, 10, nulls=2), True),
        (ints(1, 4), {}, True),
        ({}, ints(5, 10), True),
    ],
)
def test_equality_deletes_outside_the_bounds_are_pruned(
    deleted: dict[str, Any], stored: dict[str, Any], expected: bool
) -> None:
    assert applies(by_value(6, **deleted), data(5, **stored)) is expected


def test_bounds_of_all_equality_columns_must_overlap() -> None:
    far = by_value(6, equality_ids=(1, 2), **ints(1, 4))
    assert not applies(far, data(5, **ints(5, 10)))
    assert applies(by_value(6, equality_ids=(2,), **ints(1, 4)), data(5, **ints(5, 10)))
    assert applies(by_value(6, equality_ids=(99,), **bounds(b"a", b"b", 99)), data(5, **bounds(b"c", b"d", 99)))


def test_nan_equals_nan_regardless_of_bounds() -> None:
    one, two = struct.pack("<d", 1.0), struct.pack("<d", 2.0)
    counts: dict[str, Any] = {"null_value_counts": {5: 0}}
    made = by_value(6, equality_ids=(5,), **bounds(one, one, 5), **counts)
    assert applies(made, data(5, **bounds(two, two, 5), **counts))


PATHS = [f"s3://lake/t/data/{name}.parquet" for name in "abc"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["positions", "named", "vector", "values"]),
            st.integers(1, 6),
            st.sampled_from([("x",), ("y",), ()]),
            st.sampled_from(PATHS),
        ),
        max_size=8,
        unique_by=lambda one: one[3] if one[0] == "vector" else one,
    ),
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([("x",), ("y",), ()])), min_size=1, max_size=3),
)
def test_matching_agrees_with_all_rules(
    made: list[tuple[str, int, PartitionValues, str]], files: list[tuple[int, PartitionValues]]
) -> None:
    """The rules of the specification, without an index."""
    known: list[ManifestEntry] = []
    for place, (kind, number, partition, about) in enumerate(made):
        facts: dict[str, Any] = {"path": f"d{place}", "spec_id": 0 if partition else 1}
        if kind == "vector":
            known.append(vector(number, about, partition=partition, **facts))
        elif kind == "values":
            known.append(by_value(number, partition, **facts))
        else:
            referenced = about if kind == "named" else None
            known.append(deletes(POSITIONS, number, partition, referenced_data_file=referenced, **facts))
    for (number, partition), path in zip(files, PATHS, strict=False):
        file = data(number, partition, path, spec_id=0 if partition else 1)
        vectors = [
            one.data_file
            for one, (kind, *_) in zip(known, made, strict=True)
            if kind == "vector" and one.data_file.referenced_data_file == path and one.sequence_number >= number
        ]
        expected = {one.file_path for one in vectors}
        for one, (kind, *_) in zip(known, made, strict=True):
            deleting = one.data_file
            here = deleting.spec_id == file.data_file.spec_id and deleting.partition == partition
            if kind == "values" and one.sequence_number > number and (here or deleting.spec_id == 1):
                expected.add(deleting.file_path)
            if kind == "positions" and one.sequence_number >= number and here and not vectors:
                expected.add(deleting.file_path)
            named = deleting.referenced_data_file == path
            if kind == "named" and one.sequence_number >= number and named and not vectors:
                expected.add(deleting.file_path)
        assert {one.file_path for one in matching(file, *known)} == expected
