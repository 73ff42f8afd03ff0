"""Direct I/O writes the same file as the page cache, for any chunking."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.buffers import ALIGNMENT, BODY_BUFFERS, BUFFER_BYTES
from lakebed.core.clock import SystemClock
from lakebed.core.errors import StorageFull
from lakebed.storage.folder.direct_io import DirectWriting
from lakebed.storage.folder.files import NewFile
from lakebed.storage.folder.storage import DIRECT_BYTES, FolderStorage
from lakebed.storage.seam import ByteSource, Key


def is_direct(descriptor: int) -> bool:
    return bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT)


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    found = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield found
    os.close(found)


@pytest.fixture
def supports_direct_writes(descriptor: int) -> None:
    DirectWriting(descriptor)
    if not is_direct(descriptor):
        pytest.skip("the file system has no direct writes")


def content(descriptor: int) -> bytes:
    # Another descriptor, because a direct one requires aligned reads too.
    return Path(f"/proc/self/fd/{descriptor}").read_bytes()


def aligned(data: bytes) -> ByteSource:
    view = BODY_BUFFERS.take()[: len(data)]
    view[:] = data
    return view


def off_by_one(data: bytes) -> ByteSource:
    view = BODY_BUFFERS.take()[1 : 1 + len(data)]
    view[:] = data
    return view


SHAPES: list[Callable[[bytes], ByteSource]] = [bytes, aligned, off_by_one]
SIZES = st.one_of(
    st.integers(0, 3 * ALIGNMENT),
    st.sampled_from([ALIGNMENT, 4 * ALIGNMENT, BUFFER_BYTES // 2, BUFFER_BYTES - 1]),
)
PIECES = st.lists(st.tuples(SIZES, st.integers(0, len(SHAPES) - 1)), max_size=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=PIECES, seed=st.integers(0, 1000), refuse_after=st.integers(0, 5))
@pytest.mark.parametrize("refuses", [False, True])
def test_file_contains_what_was_written(
    tmp_path: Path, pieces: list[tuple[int, int]], seed: int, refuses: bool, refuse_after: int
) -> None:
    """`refuses`: the disk rejects direct writes from this write on."""
    random = Random(seed)
    written = [random.randbytes(size) for size, _ in pieces]
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    write, calls = os.write, 0

    def picky_write(target: int, data: memoryview) -> int:
        nonlocal calls
        calls += 1
        if refuses and calls > refuse_after and is_direct(target):
            raise OSError(errno.EINVAL, "not aligned")
        return write(target, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", picky_write)
        writing = DirectWriting(descriptor)
        for data, (_, shape) in zip(written, pieces, strict=True):
            writing.write(SHAPES[shape](data))
        writing.finish()
    assert content(descriptor) == b"".join(written)
    assert not is_direct(descriptor)
    os.close(descriptor)


@pytest.mark.usefixtures("supports_direct_writes")
def test_aligned_pieces_are_written_directly_and_the_rest_is_buffered(descriptor: int) -> None:
    writing = DirectWriting(descriptor)
    writing.write(aligned(b"a" * ALIGNMENT + b"tail"))
    assert is_direct(descriptor)
    assert content(descriptor) == b"a" * ALIGNMENT
    writing.finish()
    assert content(descriptor) == b"a" * ALIGNMENT + b"tail"


def test_file_system_without_direct_io_uses_the_page_cache(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(target: int, command: int, argument: int = 0) -> int:
        if command == fcntl.F_SETFL and argument & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no direct writes here")
        return 0

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    writing = DirectWriting(descriptor)
    writing.write(b"some ")
    writing.write(b"bytes")
    assert content(descriptor) == b"some bytes"
    writing.finish()


@pytest.mark.usefixtures("supports_direct_writes")
def test_full_disk_raises(descriptor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "full")

    writing = DirectWriting(descriptor)
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="full"):
        writing.write(aligned(bytes(ALIGNMENT)))


def test_modification_time_is_set_after_the_last_byte(tmp_path: Path) -> None:
    file = NewFile(str(tmp_path / "new"), direct=True)
    file.write(b"x" * (ALIGNMENT + 1))
    file.stamp(1_000_000_000)
    file.sync()
    assert file.size == ALIGNMENT + 1
    file.move(str(tmp_path / "named"))
    found = os.stat(tmp_path / "named")
    assert (found.st_mtime_ns, found.st_size) == (1_000_000_000, ALIGNMENT + 1)


class TestFolder:
    @pytest.mark.parametrize("size", [DIRECT_BYTES, DIRECT_BYTES + 1, DIRECT_BYTES + ALIGNMENT, DIRECT_BYTES - 1])
    async def test_large_file_contains_what_was_written(self, tmp_path: Path, size: int) -> None:
        storage = FolderStorage(tmp_path, SystemClock())
        body = Random(size).randbytes(size)
        writer = storage.create_file(Key("blob"), size)
        for start in range(0, size, BUFFER_BYTES):
            writer.write(aligned(body[start : start + BUFFER_BYTES]))
        writer.commit()
        assert await storage.get(Key("blob")) == body
        await storage.close()

    async def test_disk_that_is_full_at_the_end_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = FolderStorage(tmp_path, SystemClock())
        writer = storage.create_file(Key("blob"), DIRECT_BYTES)
        writer.write(b"all of it is kept back")

        def fail(target: int, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            with pytest.raises(StorageFull):
                writer.commit()
        assert not [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()]
        await storage.close()
