from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.pipeline.files.hive_layout import NULL, column_types, read_layout
from lakebed.pipeline.files.listing import ListedFile, is_inside, key_of

FOLDER = "s3://bucket/in"


def stored(*keys: str) -> list[ListedFile]:
    return [ListedFile(f"{FOLDER}/{key}", 10, 0) for key in keys]


def types(*values: str) -> dict[str, str]:
    return column_types(read_layout(FOLDER, stored(*(f"k={value}/x.parquet" for value in values))))


def test_partition_values_are_parsed_from_folders() -> None:
    layout = read_layout(f"{FOLDER}/", stored("a=1/b=x%2Fy/f.parquet", f"a=2/b={NULL}/g.parquet"))
    assert layout.columns == ("a", "b")
    assert [file.values for file in layout.files] == [("1", "x/y"), ("2", None)]


def test_plain_folders_have_no_partition_values() -> None:
    layout = read_layout(FOLDER, stored("2026/f.parquet", "g"))
    assert (layout.columns, len(layout.files)) == ((), 2)


def test_hidden_and_empty_files_are_skipped() -> None:
    files = [*stored("_SUCCESS", ".crc", "_tmp/f.parquet", "f.parquet"), ListedFile(f"{FOLDER}/empty", 0, 0)]
    layout = read_layout(FOLDER, files)
    assert ([file.path for file in layout.files], layout.hidden) == ([f"{FOLDER}/f.parquet"], 4)


def test_folder_with_a_hidden_name_is_not_a_partition() -> None:
    assert read_layout(FOLDER, stored("_day=1/f.parquet")).columns == ("_day",)


@pytest.mark.parametrize("keys", [("a=1/f", "f"), ("a=1/f", "b=1/f"), ("a=1/b=1/f", "b=1/a=1/f")])
def test_files_with_different_partition_columns_are_rejected(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="need the same partition columns"):
        read_layout(FOLDER, stored(*keys))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("1", "-20"), "int"),
        (("1", str(2**31)), "bigint"),
        (("1", NULL), "int"),
        (("2026-01-31", "2026-02-28"), "date"),
        (("2026-02-30",), "string"),
        (("007",), "string"),
        (("1", "a"), "string"),
        ((NULL,), "string"),
        ((str(10**18),), "string"),
    ],
)
def test_partition_type_fits_all_values(values: tuple[str, ...], expected: str) -> None:
    assert types(*values) == {"k": expected}


def test_given_types_override_inferred_ones() -> None:
    layout = read_layout(FOLDER, stored("a=1/b=2/f"))
    assert column_types(layout, ["a string", "b"]) == {"a": "string", "b": "int"}
    for stated in (["b", "a"], ["a"], ["a map<int,int>", "b"]):
        with pytest.raises(InvalidInput):
            column_types(layout, stated)


@given(values=st.lists(st.text(min_size=1).filter(lambda text: text != NULL), min_size=1, max_size=5))
def test_partition_values_round_trip(values: list[str]) -> None:
    files = stored(*(f"k={quote(value, safe='')}/f{number}" for number, value in enumerate(values)))
    assert [file.values for file in read_layout(FOLDER, files).files] == [(value,) for value in values]


def test_locations_are_compared_as_directories() -> None:
    assert is_inside("s3://b/t/data", "s3://b/t")
    assert is_inside("s3a://b/t/", "s3://b/t")
    assert not is_inside("s3://b/t10", "s3://b/t")
    assert not is_inside("s3://b", "s3://b/t")
    assert key_of("s3a://b/k") == key_of("s3://b/k") == "b/k"
