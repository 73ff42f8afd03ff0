"""MD5 in lanes equals hashlib's, for one body and for concurrent ones."""

from __future__ import annotations

import ctypes.util
import gc
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hatch_build import LIBRARIES, MD5_LANES
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.checksums import Buffer
from lakebed.objects.blobs.md5 import MakeMd5, Md5Lanes, PlainMd5, md5_maker
from tests.fixtures.c_libraries import ROOT, compiled


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(MD5_LANES, tmp_path_factory.mktemp("md5"))


@pytest.fixture(scope="module", params=["lanes", "hashlib"])
def new_md5(request: pytest.FixtureRequest) -> MakeMd5:
    if request.param == "hashlib":
        return PlainMd5
    return Md5Lanes(request.getfixturevalue("library")).new


def as_read_only_view(data: bytes) -> Buffer:
    return memoryview(data)


def as_view_into_more(data: bytes) -> Buffer:
    return memoryview(bytearray(b"x" + data + b"y"))[1:-1]


SHAPES: list[Callable[[bytes], Buffer]] = [bytes, bytearray, as_read_only_view, as_view_into_more]

# Around the ends of blocks and of padding, and long enough for several slices.
SIZES = st.one_of(st.integers(0, 200), st.sampled_from([55, 56, 63, 64, 65, 119, 120, 128, 65_536, 70_001, 200_000]))
PIECES = st.tuples(SIZES, st.integers(0, len(SHAPES) - 1))


@settings(deadline=None)
@given(batches=st.lists(st.lists(PIECES, max_size=40), max_size=5), seed=st.integers(0, 1000))
def test_digest_does_not_depend_on_chunking(new_md5: MakeMd5, batches: list[list[tuple[int, int]]], seed: int) -> None:
    random = Random(seed)
    running = new_md5()
    whole = b""
    assert running.digest() == md5(b"")
    for batch in batches:
        pieces = [(random.randbytes(size), SHAPES[shape]) for size, shape in batch]
        running.wait(running.begin([shape(data) for data, shape in pieces]))
        whole += b"".join(data for data, _ in pieces)
        assert running.digest() == md5(whole)


@settings(deadline=None)
@given(sizes=st.lists(st.lists(SIZES, min_size=1, max_size=4), min_size=1, max_size=20), seed=st.integers(0, 1000))
def test_concurrent_bodies_have_their_own_digests(new_md5: MakeMd5, sizes: list[list[int]], seed: int) -> None:
    random = Random(seed)
    bodies = [[random.randbytes(size) for size in body] for body in sizes]
    running = [new_md5() for _ in bodies]
    # All are begun before any wait: more bodies than lanes, with different lengths.
    numbers = [[one.begin([piece]) for piece in body] for one, body in zip(running, bodies, strict=True)]
    random.shuffle(order := list(range(len(bodies))))
    for index in order:
        running[index].wait(numbers[index][0])
        running[index].wait(numbers[index][-1])
        assert running[index].digest() == md5(b"".join(bodies[index]))


def test_concurrent_threads_get_their_own_digests(new_md5: MakeMd5) -> None:
    wrong: list[int] = []

    def hash_some(number: int) -> None:
        random = Random(number)
        for _ in range(5):
            running, expected = new_md5(), hashlib.md5(usedforsecurity=False)
            for _ in range(random.randrange(1, 6)):
                data = random.randbytes(random.randrange(300_000))
                expected.update(data)
                running.wait(running.begin([data]))
            if running.digest() != expected.digest():
                wrong.append(number)

    threads = [threading.Thread(target=hash_some, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_dropping_a_body_during_hashing_is_safe(library: Path) -> None:
    lanes = Md5Lanes(library)
    kept = lanes.new()
    data = os.urandom(1_000_000)
    number = kept.begin([data])
    for _ in range(20):
        lanes.new().begin([bytearray(data)])
    kept.wait(number)
    assert kept.digest() == md5(data)


def test_thread_ends_with_its_last_body(library: Path) -> None:
    def thread_count() -> int:
        return len(os.listdir("/proc/self/task"))

    gc.collect()
    before = thread_count()
    lanes = Md5Lanes(library)
    body = lanes.new()
    assert thread_count() == before + 1
    del lanes
    body.wait(body.begin([b"bytes"]))
    assert body.digest() == md5(b"bytes")
    del body
    assert thread_count() == before


def test_without_the_library_hashlib_is_used(library: Path, tmp_path: Path) -> None:
    assert md5_maker(library) is not PlainMd5
    assert md5_maker(tmp_path / "missing.so") is PlainMd5
    another = ctypes.util.find_library("c")
    assert another is not None
    assert md5_maker(Path(another)) is PlainMd5


class TestBuild:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """The files of the project that the build reads."""
        sources = [library.source for library in LIBRARIES]
        for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", *sources, "src/lakebed/__init__.py"):
            copy = tmp_path / "project" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
        return tmp_path / "project"

    def build(self, project: Path, compiler: str | None) -> tuple[Path, str]:
        environment = {name: value for name, value in os.environ.items() if name != "CC"}
        if compiler is not None:
            environment["CC"] = compiler
        program = "import hatchling.build; hatchling.build.build_wheel('dist')"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=project, env=environment, capture_output=True, text=True, check=True
        )
        (wheel,) = (project / "dist").iterdir()
        return wheel, done.stderr

    @pytest.mark.slow
    def test_wheel_contains_a_working_library(self, library: Path, project: Path, tmp_path: Path) -> None:
        wheel, errors = self.build(project, None)
        assert "-py3-none-linux_" in wheel.name
        assert not errors
        with zipfile.ZipFile(wheel) as archive:
            path, *_ = (archive.extract(library.built.removeprefix("src/"), tmp_path) for library in LIBRARIES)
        running = Md5Lanes(Path(path)).new()
        running.wait(running.begin([b"bytes"]))
        assert running.digest() == md5(b"bytes")

    @pytest.mark.slow
    @pytest.mark.parametrize("compiler", ["false", "/no/such/compiler", ""])
    def test_wheel_without_a_compiler_reports_missing_libraries(self, project: Path, compiler: str) -> None:
        stale = [project / library.built for library in LIBRARIES]
        for path in stale:
            path.write_bytes(b"of an earlier build")
        wheel, errors = self.build(project, compiler)
        assert wheel.name.endswith("-py3-none-any.whl")
        with zipfile.ZipFile(wheel) as archive:
            for library in LIBRARIES:
                assert library.without in errors
                assert library.built.removeprefix("src/") not in archive.namelist()
        assert not any(path.exists() for path in stale)
