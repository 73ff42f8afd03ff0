"""The folder store fulfils the contract, survives crashes and is shared by processes."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from random import Random

import pytest

from lakebed.core.clock import ManualClock, SystemClock
from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidSetting,
    NotFound,
    PreconditionFailed,
    StorageFull,
    Unavailable,
)
from lakebed.storage.folder.objects import FolderObjects
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import FileBacked, IfAbsent, Key, ObjectStorage
from tests.contracts.storage import StorageContract, keys_of, open_uploads, put_all, streamed
from tests.fixtures.descriptors import open_descriptors, opened_since

KEY = Key("some/key")


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[FolderStorage]:
    storage = FolderStorage(tmp_path / "store", SystemClock())
    yield storage
    await storage.close()


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestFolderStorage(StorageContract):
    @pytest.fixture
    def storage(self, folder: FolderStorage) -> ObjectStorage:
        return folder


class TestOpenedAgain:
    async def test_objects_keep_bytes_etag_time_and_metadata(self, folder: FolderStorage, tmp_path: Path) -> None:
        await folder.put(KEY, b"body", metadata={"name": "value"})
        before = await folder.head(KEY)
        await folder.close()
        again = FolderStorage(tmp_path / "store", SystemClock())
        assert await again.head(KEY) == before
        assert await again.get(KEY) == b"body"
        await again.put_if_match(KEY, b"next", before.etag)
        await again.close()

    async def test_uploads_continue(self, folder: FolderStorage, tmp_path: Path) -> None:
        upload = await folder.start_multipart(KEY, metadata={"name": "value"})
        first = await upload.upload_part(1, b"a" * 5 * 1024 * 1024)
        again = FolderStorage(tmp_path / "store", SystemClock())
        assert await open_uploads(again, "") == [(KEY, upload.upload_id)]
        second = await upload.upload_part(2, b"b")
        await upload.complete([first, second], IfAbsent())
        assert (await again.get(KEY))[-2:] == b"ab"
        assert (await again.head(KEY)).metadata == {"name": "value"}
        await again.close()

    async def test_folder_of_another_version_is_rejected(self, folder: FolderStorage, tmp_path: Path) -> None:
        (tmp_path / "store" / "format").write_bytes(b"lakebed folder 99\n")
        with pytest.raises(InvalidSetting, match=r"^storage\.root"):
            FolderStorage(tmp_path / "store", SystemClock())

    def test_folder_with_too_long_path_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidSetting, match=r"^storage\.root"):
            FolderStorage(tmp_path / ("x" * 200) / ("x" * 250) / ("x" * 250) / ("x" * 250), SystemClock())

    def test_file_system_that_rounds_times_is_rejected(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        utime = os.utime

        def rounding(path: int, ns: tuple[int, int]) -> None:
            utime(path, ns=(ns[0] // 1000 * 1000, ns[1] // 1000 * 1000))

        monkeypatch.setattr(os, "utime", rounding)
        with pytest.raises(InvalidSetting, match="nanoseconds"):
            FolderStorage(tmp_path / "store", SystemClock())


class ConstantRandom(Random):
    """A generator that gives every modification time the same fraction."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 5


class TestEtags:
    async def test_every_write_has_a_unique_etag_even_if_the_clock_stands(self, tmp_path: Path) -> None:
        storage = FolderStorage(tmp_path, ManualClock(), random=ConstantRandom())
        etags = {(await storage.put(KEY, b"same")).etag for _ in range(20)}
        assert len(etags) == 20
        await storage.close()

    async def test_clock_going_back_does_not_repeat_an_etag(self, tmp_path: Path) -> None:
        first = FolderStorage(tmp_path, ManualClock(2_000), random=ConstantRandom())
        old = await first.put(KEY, b"one!")
        newer = await first.put(KEY, b"two!")
        await first.close()
        second = FolderStorage(tmp_path, ManualClock(1_000), random=ConstantRandom())
        newest = await second.put(KEY, b"six!")
        assert len({old.etag, newer.etag, newest.etag}) == 3
        assert (await second.head(KEY)).etag == newest.etag
        with pytest.raises(PreconditionFailed):
            await second.put_if_match(KEY, b"three", newer.etag)
        await second.close()

    async def test_modification_time_comes_from_the_clock(self, tmp_path: Path) -> None:
        clock = ManualClock(1_700_000_000_123)
        storage = FolderStorage(tmp_path, clock)
        await storage.put(KEY, b"x")
        assert (await storage.head(KEY)).modified_ms == 1_700_000_000_123
        await storage.close()


class TestFiles:
    def test_folder_store_is_file_backed(self, folder: FolderStorage) -> None:
        assert isinstance(folder, FileBacked)

    async def test_uncommitted_file_is_not_visible(self, folder: FolderStorage) -> None:
        writer = folder.create_file(KEY)
        writer.write(b"hidden")
        with pytest.raises(NotFound):
            folder.open_file(KEY)
        with pytest.raises(NotFound):
            await folder.head(KEY)
        with pytest.raises(NotFound):
            await folder.get(KEY)
        assert await keys_of(folder) == []
        writer.commit()
        assert await folder.get(KEY) == b"hidden"
        assert await keys_of(folder) == [KEY]

    @pytest.mark.parametrize("pieces", [0, 1, 9])
    async def test_committed_file_contains_what_was_written(self, folder: FolderStorage, pieces: int) -> None:
        # Nine pieces exceed the size at which writeback starts.
        body = [bytes([number]) * (1024 * 1024 + number) for number in range(pieces)]
        writer = folder.create_file(KEY, sum(map(len, body)))
        for piece in body:
            writer.write(memoryview(piece))
        writer.commit()
        descriptor = folder.open_file(KEY)
        try:
            assert os.fstat(descriptor).st_size == sum(map(len, body))
            with open(descriptor, "rb", closefd=False) as file:
                assert file.read() == b"".join(body)
        finally:
            os.close(descriptor)
        assert await folder.get(KEY) == b"".join(body)

    async def test_discarded_file_leaves_nothing(self, folder: FolderStorage, tmp_path: Path) -> None:
        writer = folder.create_file(KEY)
        writer.write(b"x")
        writer.discard()
        writer.discard()
        assert files_below(tmp_path / "store") == ["format"]

    async def test_discard_after_commit_keeps_the_object(self, folder: FolderStorage) -> None:
        writer = folder.create_file(KEY)
        writer.write(b"x")
        writer.commit()
        writer.discard()
        assert await folder.get(KEY) == b"x"

    async def test_put_object_can_be_opened_as_a_file(self, folder: FolderStorage) -> None:
        await folder.put(KEY, b"put whole", metadata={"name": "value"})
        descriptor = folder.open_file(KEY)
        await folder.put(KEY, b"replaced")
        try:
            assert os.read(descriptor, 100) == b"put whole"
        finally:
            os.close(descriptor)

    def test_size_hint_over_the_capacity_is_rejected_at_once(self, folder: FolderStorage, tmp_path: Path) -> None:
        with pytest.raises(StorageFull):
            folder.create_file(KEY, 2**60)
        assert files_below(tmp_path / "store") == ["format"]

    def test_descriptor_of_a_new_file_is_not_inherited(self, folder: FolderStorage) -> None:
        writer = folder.create_file(KEY)
        writer.write(b"x")
        writer.commit()
        descriptor = folder.open_file(KEY)
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


class TestFullDisk:
    @pytest.fixture(params=[errno.ENOSPC, errno.EDQUOT])
    def full(self, request: pytest.FixtureRequest) -> OSError:
        return OSError(request.param, "full")

    @pytest.fixture
    def fill(self, full: OSError, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
        def fill(function: str) -> None:
            def fail(*args: object) -> None:
                raise full

            monkeypatch.setattr(os, function, fail)

        return fill

    @pytest.mark.parametrize("function", ["write", "fsync", "rename"])
    async def test_failed_put_keeps_the_old_object_and_leaves_no_file(
        self, folder: FolderStorage, tmp_path: Path, fill: Callable[[str], None], function: str
    ) -> None:
        await folder.put(KEY, b"old")
        before = files_below(tmp_path / "store")
        fill(function)
        with pytest.raises(StorageFull):
            await folder.put(KEY, b"new")
        assert await folder.get(KEY) == b"old"
        assert files_below(tmp_path / "store") == before

    @pytest.mark.parametrize("function", ["write", "fdatasync", "rename"])
    async def test_failed_file_is_never_visible(
        self, folder: FolderStorage, tmp_path: Path, fill: Callable[[str], None], function: str
    ) -> None:
        writer = folder.create_file(KEY)
        fill(function)
        with pytest.raises(StorageFull):
            self.write_and_commit(writer.write, writer.commit)
        writer.discard()
        assert files_below(tmp_path / "store") == ["format"]

    async def test_failed_part_keeps_the_upload_unchanged(
        self, folder: FolderStorage, monkeypatch: pytest.MonkeyPatch, fill: Callable[[str], None]
    ) -> None:
        upload = await folder.start_multipart(KEY)
        part = await upload.upload_part(1, b"kept")
        with monkeypatch.context():
            fill("write")
            with pytest.raises(StorageFull):
                await upload.upload_part(1, b"lost")
            monkeypatch.undo()
        await upload.complete([part])
        assert await folder.get(KEY) == b"kept"

    async def test_failed_start_leaves_no_upload(
        self, folder: FolderStorage, tmp_path: Path, fill: Callable[[str], None]
    ) -> None:
        fill("write")
        with pytest.raises(StorageFull):
            await folder.start_multipart(KEY)
        assert files_below(tmp_path / "store") == ["format"]
        assert await open_uploads(folder, "") == []

    async def test_failed_completion_can_be_repeated(
        self, folder: FolderStorage, monkeypatch: pytest.MonkeyPatch, fill: Callable[[str], None]
    ) -> None:
        upload = await folder.start_multipart(KEY)
        part = await upload.upload_part(1, b"body")
        fill("sendfile")
        with pytest.raises(StorageFull):
            await upload.complete([part])
        monkeypatch.undo()
        await upload.complete([part])
        assert await folder.get(KEY) == b"body"

    @staticmethod
    def write_and_commit(write: Callable[[bytes], None], commit: Callable[[], None]) -> None:
        write(b"bytes")
        commit()


FILLER = """
import asyncio, errno, os, sys
from pathlib import Path
from lakebed.core.clock import SystemClock
from lakebed.core.errors import StorageFull
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import Key

def write_until_full(storage):
    writer = storage.create_file(Key("blobs/large"))
    try:
        for _ in range(100):
            writer.write(b"x" * 100_000)
    except StorageFull:
        writer.discard()
        return
    raise AssertionError("never full")

async def main():
    storage = FolderStorage(Path(sys.argv[1]), SystemClock())
    await storage.put(Key("key"), b"old")
    try:
        await storage.put(Key("key"), b"x" * 4_000_000)
        raise AssertionError("never full")
    except StorageFull:
        pass
    write_until_full(storage)
    assert os.listdir(sys.argv[1] + "/tmp") == []
    assert await storage.get(Key("key")) == b"old"
    await storage.put(Key("key"), b"x" * 1_000_000)
    await storage.close()
    print("survived")

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.integration
def test_full_file_system_keeps_the_old_object(tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = 'mount -t tmpfs -o size=3m none "$1"'
    try:
        allowed = subprocess.run([*alone, "sh", "-c", mount, "sh", str(tmp_path)], capture_output=True).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this machine cannot mount a small file system")
    done = subprocess.run(
        [*alone, "sh", "-c", f'{mount} && exec "$2" -c "$3" "$1"', "sh", str(tmp_path), sys.executable, FILLER],
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("survived\n", "")


class TestOtherFailures:
    async def test_other_disk_errors_are_unavailable(
        self, folder: FolderStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(Unavailable) as raised:
            await folder.put(KEY, b"x")
        assert not isinstance(raised.value, StorageFull)
        with pytest.raises(NotFound):
            await folder.get(KEY)

    async def test_write_whose_name_may_not_be_durable_is_undecided(
        self, folder: FolderStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fsync = os.fsync

        def fail_for_folders(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EIO, "broken")
            fsync(descriptor)

        await folder.put(KEY, b"old")
        monkeypatch.setattr(os, "fsync", fail_for_folders)
        with pytest.raises(Unavailable) as raised:
            await folder.put(KEY, b"new")
        assert raised.value.undecided

    async def test_read_only_folder_is_access_denied(
        self, folder: FolderStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def deny(source: str, target: str) -> None:
            raise PermissionError(errno.EACCES, "denied")

        monkeypatch.setattr(os, "rename", deny)
        with pytest.raises(AccessDenied):
            await folder.put(KEY, b"x")

    async def test_upload_id_is_not_a_path(self, folder: FolderStorage, tmp_path: Path) -> None:
        await folder.put(KEY, b"x")
        before = files_below(tmp_path / "store")
        for upload_id in ("../objects", "..", "", "/etc", "a/b"):
            await folder.abort_upload(KEY, upload_id)
        assert files_below(tmp_path / "store") == before

    async def test_upload_of_another_key_is_not_aborted(self, folder: FolderStorage) -> None:
        upload = await folder.start_multipart(KEY)
        await folder.abort_upload(Key("other"), upload.upload_id)
        assert await open_uploads(folder, "") == [(KEY, upload.upload_id)]

    async def test_foreign_files_are_not_listed(self, folder: FolderStorage, tmp_path: Path) -> None:
        await folder.put(Key("a/b"), b"x")
        for name in (".DS_Store", "b~", "b@.swp", "lost+found", "a@b"):
            (tmp_path / "store" / "objects" / "a" / name).write_bytes(b"foreign")
        assert await keys_of(folder) == ["a/b"]


class TestDurability:
    """Checks the order of system calls, because tests cannot cut the power."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
        calls: list[str] = []
        root = f"{tmp_path}/store/"

        def name(path: str) -> str:
            return re.sub(
                r"\d+-[0-9a-f]{16}", "NEW", re.sub(r"uploads/[0-9a-f]+", "uploads/ID", path.removeprefix(root))
            )

        def watch(function: str, path_of: Callable[[int | str], str]) -> None:
            original = getattr(os, function)

            def watched(target: int | str, *rest: str, **options: object) -> object:
                calls.append(" ".join([function, name(path_of(target)), *map(name, rest)]))
                return original(target, *rest, **options)

            monkeypatch.setattr(os, function, watched)

        for function in ("fsync", "fdatasync"):
            watch(function, lambda descriptor: os.readlink(f"/proc/self/fd/{descriptor}"))
        for function in ("rename", "unlink"):
            watch(function, str)
        return calls

    async def test_put_syncs_bytes_before_the_rename_and_the_name_before_returning(
        self, folder: FolderStorage, calls: list[str]
    ) -> None:
        await folder.put(Key("key"), b"x")
        assert calls == ["fsync tmp/NEW", "rename tmp/NEW objects/key@", "fsync objects"]

    async def test_commit_syncs_bytes_before_the_rename_and_the_name_before_returning(
        self, folder: FolderStorage, calls: list[str]
    ) -> None:
        writer = folder.create_file(Key("key"))
        writer.write(b"x")
        writer.commit()
        assert calls == ["fdatasync tmp/NEW", "rename tmp/NEW objects/key@", "fsync objects"]

    async def test_new_folders_are_synced_in_their_parents(self, folder: FolderStorage, calls: list[str]) -> None:
        await folder.put(Key("a/b/key"), b"x")
        rename = "rename tmp/NEW objects/a/b/key@"
        folders = ["fsync objects", "fsync objects/a"]
        assert calls == ["fsync tmp/NEW", rename, *folders, rename, "fsync objects/a/b"]

    async def test_metadata_is_durable_before_the_object_is_visible(
        self, folder: FolderStorage, calls: list[str]
    ) -> None:
        await folder.put(Key("key"), b"x", metadata={"name": "value"})
        published = calls.index("rename tmp/NEW objects/key@")
        assert calls[1] == "fsync tmp/NEW"
        assert any(step.startswith("fsync metadata/") for step in calls[:published])

    async def test_deletion_is_durable_when_delete_returns(self, folder: FolderStorage, calls: list[str]) -> None:
        await put_all(folder, ["a/1", "a/2"])
        calls.clear()
        await folder.delete_many([Key("a/1")])
        assert [step for step in calls if "metadata" not in step] == ["unlink objects/a/1@", "fsync objects/a"]
        calls.clear()
        await folder.delete_many([Key("a/2")])
        assert calls[-1] == "fsync objects", "the folder itself was removed"

    async def test_part_is_durable_when_it_is_acknowledged(self, folder: FolderStorage, calls: list[str]) -> None:
        upload = await folder.start_multipart(KEY)
        assert calls[-2:] == ["rename tmp/NEW uploads/ID", "fsync uploads"]
        calls.clear()
        await upload.upload_part(1, b"x")
        assert calls == ["fsync tmp/NEW", "rename tmp/NEW uploads/ID/00001", "fsync uploads/ID"]


class TestSweep:
    async def test_old_leftovers_of_a_crash_are_removed(self, folder: FolderStorage, tmp_path: Path) -> None:
        store = tmp_path / "store"
        await folder.put(KEY, b"kept", metadata={"name": "kept"})
        kept = files_below(store)
        old, young = store / "tmp" / "old", store / "tmp" / "young"
        old.write_bytes(b"torn")
        young.write_bytes(b"being written")
        upload = store / "tmp" / "upload"
        upload.mkdir()
        (upload / "00001").write_bytes(b"part")
        for path in (old, upload):
            os.utime(path, (1_000_000_000, 1_000_000_000))
        assert len(await folder.sweep_temporary(3_600_000)) == 2
        assert files_below(store) == sorted([*kept, "tmp/young"])
        assert len(await folder.sweep_temporary(0)) == 1
        assert files_below(store) == kept

    async def test_metadata_without_object_is_removed(self, folder: FolderStorage, tmp_path: Path) -> None:
        await folder.put(KEY, b"body", metadata={"name": "value"})
        (notes,) = (tmp_path / "store" / "metadata").rglob("*@*")
        orphan = notes.with_name(notes.name.split("@")[0] + "@123-4")
        orphan.write_bytes(notes.read_bytes())
        assert len(await folder.sweep_temporary(3_600_000)) == 0, "a put that is about to publish may have written it"
        assert len(await folder.sweep_temporary(0)) == 1
        assert not orphan.exists()
        assert (await folder.head(KEY)).metadata == {"name": "value"}

    async def test_replaced_and_deleted_objects_leave_no_metadata(self, folder: FolderStorage, tmp_path: Path) -> None:
        await folder.put(KEY, b"1", metadata={"name": "one"})
        await folder.put(KEY, b"2", metadata={"name": "two"})
        assert len(list((tmp_path / "store" / "metadata").rglob("*@*"))) == 1
        await folder.delete(KEY)
        assert list((tmp_path / "store" / "metadata").rglob("*@*")) == []

    async def test_empty_folders_are_removed(self, folder: FolderStorage, tmp_path: Path) -> None:
        await put_all(folder, ["a/b/c/1", "a/b/c/2", "a/x"])
        await folder.delete_many([Key("a/b/c/1"), Key("a/b/c/2")])
        assert os.listdir(tmp_path / "store" / "objects" / "a") == ["x@"]
        await folder.delete(Key("a/x"))
        assert os.listdir(tmp_path / "store" / "objects") == []


class TestTogether:
    @pytest.mark.slow
    async def test_puts_survive_concurrent_removal_of_empty_folders(self, folder: FolderStorage) -> None:
        async def put_and_delete(name: str) -> None:
            key = Key(f"deep/er/{name}")
            for _ in range(25):
                await folder.put(key, name.encode())
                assert await folder.get(key) == name.encode()
                await folder.delete(key)

        await asyncio.gather(*(put_and_delete(name) for name in "abcdef"))
        assert await keys_of(folder) == []

    async def test_stream_reads_one_version_during_a_replacement(self, folder: FolderStorage) -> None:
        await folder.put(KEY, b"old" * 1_000_000)
        pieces = folder.stream(KEY)
        read = [await anext(pieces)]
        await folder.put(KEY, b"new" * 1_000_000)
        read.extend([piece async for piece in pieces])
        assert b"".join(read) == b"old" * 1_000_000
        assert await streamed(folder, KEY) == b"new" * 1_000_000

    async def test_head_never_mixes_two_versions(
        self, folder: FolderStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await folder.put(KEY, b"old", metadata={"name": "old"})
        (notes,) = (tmp_path / "store" / "metadata").rglob("*@*")
        other = FolderStorage(tmp_path / "store", SystemClock())
        read_notes = FolderObjects._read_metadata
        replaced = False

        def replace_before_reading(self: FolderObjects, key: bytes, etag: str) -> Mapping[str, str] | None:
            nonlocal replaced
            if not replaced:
                replaced = True
                other._objects.put(key, b"newer", {"name": "new"}, None)
                assert not notes.exists()
            return read_notes(self, key, etag)

        monkeypatch.setattr(FolderObjects, "_read_metadata", replace_before_reading)
        head = await folder.head(KEY)
        assert (head.size, head.metadata) == (5, {"name": "new"})
        await other.close()

    async def test_closed_streams_hold_no_descriptors(self, tmp_path: Path) -> None:
        storage = FolderStorage(tmp_path / "other", SystemClock())
        await storage.put(KEY, b"x" * 3_000_000)
        before = open_descriptors()
        for _ in range(5):
            pieces = storage.stream(KEY)
            await anext(pieces)
            await pieces.aclose()  # type: ignore[attr-defined]  # the folder's streams are generators
        await storage.close()
        assert not opened_since(before)

    async def test_stream_may_be_closed_after_its_store(self, tmp_path: Path) -> None:
        storage = FolderStorage(tmp_path / "other", SystemClock())
        await storage.put(KEY, b"x" * 3_000_000)
        before = open_descriptors()
        pieces = storage.stream(KEY)
        await anext(pieces)
        await storage.close()
        await pieces.aclose()  # type: ignore[attr-defined]  # the folder's streams are generators
        assert not opened_since(before)

    async def test_one_of_two_concurrent_completions_raises_no_such_upload(self, folder: FolderStorage) -> None:
        upload = await folder.start_multipart(KEY)
        part = await upload.upload_part(1, b"x")
        outcomes = await asyncio.gather(upload.complete([part]), upload.complete([part]), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoSuchUpload", "ObjectVersion"]


COUNTER = """
import asyncio, sys
from pathlib import Path
from lakebed.core.clock import SystemClock
from lakebed.core.errors import PreconditionFailed
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import Key

async def main():
    storage = FolderStorage(Path(sys.argv[1]), SystemClock())
    key = Key("counter")
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while done < int(sys.argv[2]):
        head = await storage.head(key)
        count = int(await storage.get(key))
        try:
            await storage.put_if_match(key, str(count + 1).encode(), head.etag)
            done += 1
        except PreconditionFailed:
            pass
    await storage.close()

asyncio.run(main())
"""

CREATOR = """
import asyncio, sys
from pathlib import Path
from lakebed.core.clock import SystemClock
from lakebed.core.errors import AlreadyExists
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import Key

async def main():
    storage = FolderStorage(Path(sys.argv[1]), SystemClock())
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        try:
            await storage.put_if_absent(Key(f"race/{number}"), sys.argv[3].encode())
            print(number, flush=True)
        except AlreadyExists:
            pass
    await storage.close()

asyncio.run(main())
"""

REPLACER = """
import asyncio, itertools, sys
from pathlib import Path
from lakebed.core.clock import SystemClock
from lakebed.storage.folder.storage import FolderStorage
from lakebed.storage.seam import Key

async def main():
    storage = FolderStorage(Path(sys.argv[1]), SystemClock())
    for number in itertools.count():
        body = bytes([65 + number % 26]) * (3_000_000 + number)
        print("put", number, flush=True)
        await storage.put(Key("object"), body, metadata={"number": str(number)})
        file = storage.create_file(Key(f"blobs/{number:032x}"))
        file.write(body)
        file.commit()
        print("done", number, flush=True)

asyncio.run(main())
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def release(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert read_line(process) == "ready"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


@pytest.mark.slow
class TestProcesses:
    async def test_compare_and_swap_across_processes_loses_no_update(
        self, folder: FolderStorage, tmp_path: Path
    ) -> None:
        await folder.put(Key("counter"), b"0")
        processes = [start(COUNTER, str(tmp_path / "store"), "40") for _ in range(3)]
        release(processes)
        for process in processes:
            process.communicate()
            assert process.returncode == 0
        assert await folder.get(Key("counter")) == b"120"

    async def test_exactly_one_process_creates_each_key(self, folder: FolderStorage, tmp_path: Path) -> None:
        processes = [start(CREATOR, str(tmp_path / "store"), "30", str(number)) for number in range(3)]
        release(processes)
        winners: dict[int, list[int]] = {}
        for number, process in enumerate(processes):
            output, _ = process.communicate()
            assert process.returncode == 0
            for created in output.split():
                winners.setdefault(int(created), []).append(number)
        assert sorted(winners) == list(range(30))
        for key, (winner,) in winners.items():
            assert await folder.get(Key(f"race/{key}")) == str(winner).encode()

    @pytest.mark.parametrize(("kills", "lines"), [(4, 1), (4, 2), (4, 5)])
    async def test_killed_writer_leaves_no_partial_object(
        self, folder: FolderStorage, tmp_path: Path, kills: int, lines: int
    ) -> None:
        for _ in range(kills):
            process = start(REPLACER, str(tmp_path / "store"))
            finished = -1
            for _ in range(lines):
                match read_line(process).split():
                    case ["done", number]:
                        finished = int(number)
            process.kill()
            process.communicate()
            await self.check_whole(folder, finished)
        await folder.sweep_temporary(0)
        assert os.listdir(tmp_path / "store" / "tmp") == []
        await self.check_whole(folder, -1)

    async def check_whole(self, folder: FolderStorage, finished: int) -> None:
        """Every visible object is complete, and acknowledged ones are visible."""
        listed = [head async for head in folder.list_prefix()]
        for head in listed:
            body = await folder.get(head.key)
            number = head.size - 3_000_000
            assert body == bytes([65 + number % 26]) * head.size
        blobs = {head.key for head in listed}
        for number in range(finished + 1):
            assert f"blobs/{number:032x}" in blobs
        if "object" in blobs:
            head = await folder.head(Key("object"))
            assert head.metadata == {"number": str(head.size - 3_000_000)}
        else:
            assert finished < 0


async def test_losing_create_does_not_write_its_bytes(folder: FolderStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    await folder.put(KEY, b"first")

    def fail(descriptor: int, body: bytes) -> int:
        raise AssertionError("wrote in vain")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(AlreadyExists):
        await folder.put_if_absent(KEY, b"second")
