"""Names on disk: any key has a valid name, keys can be restored, and folders are contiguous in a listing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidName
from lakebed.storage.folder.layout import folder_path, object_path, walk_objects
from lakebed.storage.keys import check_key


def is_key(text: str) -> bool:
    try:
        check_key(text)
    except InvalidName:
        return False
    return True


segments = st.one_of(
    st.text(min_size=1, max_size=8),
    st.text(alphabet="ab.%@+-!0", min_size=1, max_size=4),
    st.integers(155, 165).map(lambda length: "z" * length),
    st.integers(50, 56).map(lambda length: "é" * length),
    st.builds(lambda length, tail: "z" * length + tail, st.integers(159, 161), st.sampled_from([".", "..", "!", "0"])),
)
keys = st.lists(segments, min_size=1, max_size=4).map("/".join).filter(is_key)


@pytest.mark.slow
@given(keys)
@example("z" * 160 + "/..")
@example("z" * 160 + "..")
@example("z" * 160 + "../a")
def test_every_name_is_valid_on_file_systems(key: str) -> None:
    for name in object_path(key.encode()).split("/"):
        assert name not in ("", ".", "..")
        assert len(name) <= 200
        assert name.isascii()


@pytest.mark.slow
@given(keys, keys)
def test_different_keys_have_different_files(one: str, other: str) -> None:
    assert (object_path(one.encode()) == object_path(other.encode())) == (one == other)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layout")


@pytest.mark.slow
@given(
    found=st.sets(keys, max_size=8), prefix=st.one_of(st.just(""), keys, segments), after=st.one_of(st.just(""), keys)
)
@example(found={"z" * 160 + "!", "z" * 160 + "/a", "z" * 160 + "0", "z" * 160, "z"}, prefix="", after="")
@example(found={"z" * 160 + "!", "z" * 160 + "/a", "z" * 160 + "0"}, prefix="z" * 160 + "/", after="")
@example(found={"z" * 160 + "..", "z" * 160 + "../b", "z" * 160}, prefix="z" * 160 + "../", after="")
def test_walk_equals_the_sorted_keys(scratch: Path, found: set[str], prefix: str, after: str) -> None:
    root = scratch / os.urandom(8).hex()
    root.mkdir()
    for key in found:
        path = root / object_path(key.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    expected = sorted(key.encode() for key in found if key.startswith(prefix) and key.encode() > after.encode())
    walked = list(walk_objects(str(root), prefix.encode(), after.encode()))
    assert [key for key, _ in walked] == expected
    assert [path for _, path in walked] == [f"{root}/{object_path(key)}" for key in expected]


@pytest.mark.parametrize("prefix", [b"a//", b"../", b"a/./", b"nul\0/", b"/"])
def test_prefix_of_no_valid_key_has_no_folder(prefix: bytes) -> None:
    assert folder_path(prefix) is None


def test_walk_reads_only_folders_with_possible_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("a/1", "b/1", "b/2", "c/1"):
        path = tmp_path / object_path(key.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    read: list[str] = []
    listdir = os.listdir

    def recording(path: str) -> list[str]:
        read.append(os.path.basename(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", recording)
    assert [key for key, _ in walk_objects(str(tmp_path), b"", b"b/1")] == [b"b/2", b"c/1"]
    assert read == [tmp_path.name, "b", "c"]
    read.clear()
    assert [key for key, _ in walk_objects(str(tmp_path), b"b/", b"")] == [b"b/1", b"b/2"]
    assert read == ["b"]
