"""The object store interface: whole objects by key, conditional writes, multipart uploads.

Implementations: `folder` (a local folder), `memory` (for tests), `s3` (any S3-compatible store), `azure` (Azure Blob
Storage, ADLS Gen2), `gcs` (Google Cloud Storage, without multipart uploads). Wrappers with the same interface add one
feature each: `retry`, `metrics`, `faults`. All pass the contract in `tests/contracts/storage.py`.

Guarantees of every implementation:

- A write is atomic: readers see the old object or the new one, never a mix or a part.
- A write that returned is on stable storage.
- `AlreadyExists` and `PreconditionFailed` are *decided*: the condition was evaluated, and nothing of the rejected write
  is visible. `WriteConflict` is *undecided*: evaluate again. `Unavailable` from a write is undecided too; if the store
  knows that the write may have happened, the error has `undecided`.
- ETags are opaque and unquoted; they are only compared for equality.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, runtime_checkable

Key = NewType("Key", str)
"""A key: UTF-8, 1 to 1,024 bytes, no NUL; segments between `/` are neither empty nor `.` nor `..`."""

Metadata = Mapping[str, str]
"""User metadata, with lower-case ASCII letters and digits as names, because some stores restrict names."""

ByteSource = bytes | bytearray | memoryview
"""The body of a write."""

MIN_PART_BYTES = 5 * 1024 * 1024
"""S3's minimum size of every part but the last."""

MAX_PARTS = 10_000
"""S3's limit of parts per upload."""


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """The version that a write created."""

    etag: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """An object's properties without its content."""

    key: Key
    size: int
    etag: str
    modified_ms: int
    metadata: Metadata = field(default_factory=dict)
    version: str | None = None


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """Write only if no object has the key."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Write only if the object with the key has this ETag."""

    etag: str


WriteCondition = IfAbsent | IfMatch


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """An uploaded part, to list at completion."""

    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A multipart upload that was neither completed nor aborted."""

    key: Key
    upload_id: str
    started_ms: int


class MultipartUpload(Protocol):
    """A multipart upload. The object appears when `complete` returns."""

    @property
    def key(self) -> Key:
        """The key of the object."""
        ...

    @property
    def upload_id(self) -> str:
        """The upload's id in the store."""
        ...

    async def upload_part(self, number: int, body: ByteSource) -> PartReceipt:
        """Upload part `number` (1 to 10,000, any order), replacing an earlier one. Raises NotFound after an abort."""
        ...

    async def complete(self, parts: Sequence[PartReceipt], condition: WriteCondition | None = None) -> ObjectVersion:
        """Create the object from these parts, given in ascending order.

        Raises InvalidPart, InvalidPartOrder, PartTooSmall; AlreadyExists or PreconditionFailed if `condition` is false;
        WriteConflict if undecided (then the upload cannot be reused); NotFound if the upload does not exist.
        """
        ...

    async def abort(self) -> None:
        """Delete the upload and its parts. Idempotent."""
        ...


class ObjectStorage(Protocol):
    """Whole objects by key.

    Every method may raise Unavailable, Throttled, Unauthenticated, AccessDenied and, when writing, StorageFull; other
    errors are listed per method. Keys that break the rules of `Key` raise InvalidName.
    """

    async def put(self, key: Key, body: ByteSource, *, metadata: Metadata | None = None) -> ObjectVersion:
        """Write an object, replacing an existing one."""
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
        """Create a multipart upload. Nothing is visible before it completes."""
        ...

    def list_uploads(self, prefix: str = "") -> AsyncIterator[OpenUpload]:
        """Open uploads, for sweeps and leak checks."""
        ...

    async def abort_upload(self, key: Key, upload_id: str) -> None:
        """Abort an upload found by `list_uploads`. Idempotent."""
        ...

    async def get(self, key: Key) -> bytes:
        """The whole object. Raises NotFound."""
        ...

    async def get_range(self, key: Key, start: int, end: int) -> bytes:
        """Bytes from `start` to `end`, exclusive, limited to the object's end.

        Raises NotFound, and InvalidRange if `start` is negative, at or past the object's end, or not before `end`.
        """
        ...

    def stream(self, key: Key, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The same bytes as `get_range` in pieces, without holding them all. The first step raises as `get_range`.

        An empty object streamed from 0 yields nothing.
        """
        ...

    async def head(self, key: Key) -> ObjectHead:
        """Size, ETag, time and metadata. Raises NotFound."""
        ...

    def list_prefix(self, prefix: str = "", start_after: str = "") -> AsyncIterator[ObjectHead]:
        """Objects under `prefix` after `start_after`, in the order of UTF-8 bytes, without metadata.

        One request per 1,000 keys. Can be resumed after the last key seen.
        """
        ...

    async def delete(self, key: Key) -> None:
        """Remove the object. Removing an absent one succeeds."""
        ...

    async def delete_many(self, keys: Sequence[Key]) -> None:
        """Remove objects, at most 1,000 per request. Idempotent."""
        ...

    async def close(self) -> None:
        """Release connections and threads."""
        ...


class FileWriter(Protocol):
    """A new object written to a local file. Its methods block: call them from a thread."""

    def write(self, body: ByteSource) -> None:
        """Append bytes. Raises StorageFull."""
        ...

    def commit(self) -> None:
        """Sync what was written and make it visible under its key. Raises StorageFull."""
        ...

    def discard(self) -> None:
        """Remove what was written. Idempotent; a no-op after `commit`."""
        ...


@runtime_checkable
class FileBacked(Protocol):
    """Further methods of an object store on a local disk, which let the kernel move the bytes."""

    def check_capacity(self, size: int) -> None:
        """Raise StorageFull unless `size` more bytes fit in the store, or beside it on its disk.

        Some space is reserved, because deletions need a little too: a full disk must be recoverable.
        """
        ...

    def create_file(self, key: Key, size_hint: int | None = None) -> FileWriter:
        """Create a write-once object under a unique key. It is visible after `commit`.

        Raises StorageFull at once if `check_capacity` does for the size.
        """
        ...

    def remove_files(self, keys: Sequence[Key]) -> None:
        """Remove write-once objects; absent ones are ignored. Blocks.

        Cheaper than `delete_many`, because not durable: after a power loss an object may reappear, for the orphan sweep
        to remove.
        """
        ...

    def open_file(self, key: Key) -> int:
        """A read-only descriptor of the object, which the caller closes. Raises NotFound."""
        ...
