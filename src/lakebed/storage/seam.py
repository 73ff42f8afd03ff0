"""The byte store: whole objects by key, conditional writes that fence, multipart uploads.

Implementations: `folder` (a local folder), `memory` (honest twin for tests), `s3` (any S3 store). Wrappers of the
same shape add one idea each: `retry`, `metrics`, `faults`. `tests/contracts/storage.py` is the contract they all pass.

What callers rely on, whatever the implementation:

- A write is atomic: readers see the old object or the new one, never a mix and never a part of one.
- A write that returned is on stable storage.
- `AlreadyExists` and `PreconditionFailed` are *decided*: the condition was evaluated and nothing of the loser is
  visible. `WriteConflict` is *undecided*: evaluate again. So is `Unavailable` from a write: it may have happened, and
  where the store knows that, the error's `undecided` says so.
- ETags are opaque and unquoted; they are only compared for equality.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, runtime_checkable

Key = NewType("Key", str)
"""A key: UTF-8, 1 to 1,024 bytes, no NUL; segments between `/` are neither empty nor `.` nor `..`."""

Metadata = Mapping[str, str]
"""User metadata: lower-case ASCII letters and digits as names, because some stores restrict more than that."""

ByteSource = bytes | bytearray | memoryview
"""What a write accepts."""

MIN_PART_BYTES = 5 * 1024 * 1024
"""S3's least size for every part but the last."""

MAX_PARTS = 10_000
"""S3's most parts of one upload."""


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """What a write made."""

    etag: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """What is known of an object without reading it."""

    key: Key
    size: int
    etag: str
    modified_ms: int
    metadata: Metadata = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """The write happens only if no object has the key."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """The write happens only if the object with the key has this ETag."""

    etag: str


WriteCondition = IfAbsent | IfMatch


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """One uploaded part, to be named at completion."""

    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A multipart upload that was begun and neither completed nor aborted."""

    key: Key
    upload_id: str
    started_ms: int


class MultipartUpload(Protocol):
    """A begun multipart upload. The object appears only when `complete` returns."""

    @property
    def key(self) -> Key:
        """Where the object will be."""
        ...

    @property
    def upload_id(self) -> str:
        """The store's name for this upload."""
        ...

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Send part `number` (1 to 10,000, any order); sending it again replaces it. Raises NotFound after an abort."""
        ...

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Make the object of these parts, given in ascending order.

        Raises InvalidPart, InvalidPartOrder, PartTooSmall; AlreadyExists or PreconditionFailed when `condition` is
        false; WriteConflict when undecided (then the upload is not reusable); NotFound when the upload is gone.
        """
        ...

    async def abort(self) -> None:
        """Forget the upload and free its parts. Idempotent."""
        ...


class ObjectStorage(Protocol):
    """Whole objects by key.

    Every method may raise Unavailable, Throttled, Unauthenticated, AccessDenied and, when writing, StorageFull;
    the rest is listed per method. InvalidName is raised for keys that break the rules of `Key`.
    """

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write the whole object, replacing what was there."""
        ...

    async def put_if_absent(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Create `key`. Raises AlreadyExists if another writer was first; WriteConflict if undecided (retry)."""
        ...

    async def put_if_match(
        self, key: Key, body: ByteSource, etag: str, *, metadata: Metadata | None = None
    ) -> ObjectVersion:
        """Replace `key` if it still has `etag`. Raises PreconditionFailed (also when absent) or WriteConflict."""
        ...

    async def start_multipart(self, key: Key, *, metadata: Metadata | None = None) -> MultipartUpload:
        """Begin an upload in parts. Nothing is visible before it completes."""
        ...

    def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Uploads that were begun and not ended, for sweepers and leak checks."""
        ...

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`. Idempotent."""
        ...

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        ...

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` up to, not including, `end`, cut at the object's end.

        Raises NotFound, and InvalidRange if `start` is negative, at or past the object's end, or not before `end`.
        """
        ...

    def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The same bytes as `get_range` in pieces, without holding them all. Raises as `get_range` on first step.

        An empty object streamed from 0 yields nothing.
        """
        ...

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        ...

    def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`, ascending by UTF-8 bytes; metadata is not filled in.

        One request per 1,000 keys. Restartable from the last key seen.
        """
        ...

    async def delete(self, key: Key) -> None:
        """Remove the object. Removing what is absent is success."""
        ...

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove many, in batches of at most 1,000 a request. Idempotent."""
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


class FileWriter(Protocol):
    """A new object being written straight into a local file. Its methods block: call them from a thread."""

    def write(self, body: ByteSource) -> None:
        """Append bytes. Raises StorageFull."""
        ...

    def commit(self) -> None:
        """Put what was written on stable storage and make it visible under its key. Raises StorageFull."""
        ...

    def discard(self) -> None:
        """Remove what was written. Idempotent; a no-op after `commit`."""
        ...


@runtime_checkable
class FileBacked(Protocol):
    """What a byte store on a local disk can do besides: hand out files, so that the kernel moves the bytes."""

    def check_capacity(self, size: int) -> None:
        """Raise StorageFull unless so many more bytes may be stored here, or beside here.

        Some space is kept back, because removing things takes a little too: whoever has filled the disk must be able
        to empty it again.
        """
        ...

    def create_file(self, key: Key, size_hint: int | None = None) -> FileWriter:
        """Begin a write-once object whose key nobody else uses. Visible under its key after `commit` only.

        Raises StorageFull at once if `check_capacity` does for the size.
        """
        ...

    def remove_files(self, keys: Sequence[Key]) -> None:
        """Remove write-once objects; absent ones are fine. Blocks.

        Cheaper than `delete_many`, because it promises less: after a power loss one may be there again, for a sweep of
        what nothing refers to.
        """
        ...

    def open_file(self, key: Key) -> int:
        """A read-only descriptor of the object, which the caller closes. Raises NotFound."""
        ...
