"""Recovers a log from its folder: sealed segments by their indexes, the last one batch by batch.

After a crash only the end of the last segment is in doubt. Batches are accepted as long as they are complete and
consecutive; the rest is a torn write that was never acknowledged, and is truncated. If complete batches follow an
incomplete one, they may have been acknowledged: the file is damaged, and the log is not opened. Exception: if a block
of the file was never written, they are the remains of one last write before a loss of power.

The checkpoint stores how far the file was already checked. It covers synced bytes only.
"""

from __future__ import annotations

import logging
import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from awscrt.checksums import crc32c

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.fluss.log_batches import LogRecordBatch, has_valid_checksum, read_header
from lakebed.storage.folder.files import make_folder, sync_folder

from ..offset_assignment import OffsetAssigner
from ..writer_state import WriterStates
from .segment import Segment, segment_path
from .sparse_index import SparseIndex

__all__ = ["CHECKPOINT", "recover", "replace_file", "write_checkpoint", "writers_at"]

CHECKPOINT: Final = "checkpoint"

_logger = logging.getLogger(__name__)
_HEAD: Final = struct.Struct("<4sIqqqqI")
_MAGIC: Final = b"LBc1"
_BLOCK_BYTES: Final = 4096
_SEARCH_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    base_offset: int
    size: int
    end_offset: int
    timestamp_ms: int
    index: SparseIndex
    writers: WriterStates


def recover(folder: str, assigner: OffsetAssigner, first_offset: int = 0) -> list[Segment]:
    """Open the log in `folder` and set `assigner` to its end. Everything in it is on stable storage afterwards.

    A new log starts at `first_offset`. Blocks. Raises LOG_STORAGE for damaged files, OSError.
    """
    make_folder(folder)
    bases = sorted(int(name[:20]) for name in os.listdir(folder) if name.endswith(".log"))
    if not bases:
        bases = [first_offset]
        os.close(os.open(segment_path(folder, first_offset), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        sync_folder(folder)
    segments = []
    for base, following in pairwise(bases):
        segment = _open_sealed(folder, base)
        if segment.end_offset != following:
            raise _damaged(segment.path, f"the next segment is missing. end={segment.end_offset} next={following}")
        segments.append(segment)
    last = _open_last(folder, bases[-1], assigner, segments)
    segments.append(last)
    assigner.end_offset = last.end_offset
    assigner.timestamp_ms = max(segment.timestamp_ms for segment in segments)
    return segments


def write_checkpoint(folder: str, segment: Segment, index: bytes, writers: bytes) -> None:
    """Store how far a segment was checked. Blocks. Raises OSError."""
    body = index + writers
    numbers = (segment.base_offset, segment.size, segment.end_offset, segment.timestamp_ms, len(index))
    head = _HEAD.pack(_MAGIC, crc32c(body, crc32c(struct.pack("<qqqqI", *numbers))), *numbers)
    # Not synced: a lost or torn checkpoint fails its checksum, and only makes recovery slower.
    replace_file(os.path.join(folder, CHECKPOINT), head + body, synced=False)


def replace_file(path: str, body: bytes, *, synced: bool = True) -> None:
    """Write a small file atomically. Raises OSError."""
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(body)
        while view:
            view = view[os.write(descriptor, view) :]
        if synced:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)


def _read_checkpoint(folder: str, base_offset: int, file_size: int) -> _Checkpoint | None:
    try:
        with open(os.path.join(folder, CHECKPOINT), "rb") as file:
            document = file.read()
        magic, crc, base, size, end, stamp, index_bytes = _HEAD.unpack_from(document)
        body = document[_HEAD.size :]
        head = struct.pack("<qqqqI", base, size, end, stamp, index_bytes)
        if magic != _MAGIC or crc32c(body, crc32c(head)) != crc or base != base_offset or size > file_size:
            return None
        index = SparseIndex.parse(body[:index_bytes], size)
        return _Checkpoint(base, size, end, stamp, index, WriterStates.parse(body[index_bytes:]))
    except (OSError, ValueError, struct.error):
        return None


def _open_sealed(folder: str, base_offset: int) -> Segment:
    """Open a segment that was synced completely before the next one was created."""
    segment = Segment(segment_path(folder, base_offset), base_offset)
    size = os.stat(segment.path).st_size
    with suppress(OSError, ValueError, FlussError):
        with open(segment_path(folder, base_offset, "index"), "rb") as file:
            index = SparseIndex.parse(file.read(), size)
        segment.index, segment.size = index, size
        last = segment.last_batch()
        segment.end_offset, segment.timestamp_ms = last.next_offset, last.timestamp_ms
        return segment
    segment.index, segment.size = SparseIndex(), 0
    if _scan(segment, size) < size:
        raise _damaged(segment.path, f"incomplete batch. position={segment.size}")
    replace_file(segment_path(folder, base_offset, "index"), segment.index.document(size))
    return segment


def _open_last(folder: str, base_offset: int, assigner: OffsetAssigner, sealed: list[Segment]) -> Segment:
    segment = Segment(segment_path(folder, base_offset), base_offset)
    file_size = os.stat(segment.path).st_size
    checkpoint = _read_checkpoint(folder, base_offset, file_size)
    if checkpoint is not None:
        segment.index, segment.size = checkpoint.index, checkpoint.size
        segment.end_offset, segment.timestamp_ms = checkpoint.end_offset, checkpoint.timestamp_ms
        assigner.writers = checkpoint.writers
    else:
        assigner.writers = writers_at(folder, base_offset, sealed)
    end = _scan(segment, file_size, assigner.writers)
    if end < file_size:
        _truncate(segment, file_size)
    # Bytes written by a killed process are in the page cache, and possibly not on disk.
    os.fsync(segment.descriptor())
    return segment


def writers_at(folder: str, offset: int, sealed: list[Segment]) -> WriterStates:
    """The writer state at the beginning of a segment: as stored then, or rebuilt from the sealed segments."""
    with suppress(OSError, ValueError), open(segment_path(folder, offset, "writers"), "rb") as file:
        document = file.read()
        if crc32c(document[4:]) == int.from_bytes(document[:4], "little"):
            return WriterStates.parse(document[4:])
    writers = WriterStates()
    for segment in sealed:
        again = Segment(segment.path, segment.base_offset)
        _scan(again, segment.size, writers)
        again.close()
    return writers


def _scan(segment: Segment, file_size: int, writers: WriterStates | None = None) -> int:
    """Read batches from the end of `segment` as long as they are complete; returns the position after them."""
    if segment.size >= file_size:
        return segment.size
    with mmap.mmap(segment.descriptor(), file_size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
        while segment.size < file_size:
            batch = _complete_batch_at(view, segment.size, segment.end_offset)
            if batch is None:
                break
            if writers is not None:
                writers.record(batch, batch.base_offset, batch.timestamp_ms)
            segment.extend(batch.base_offset, len(batch.view), batch.timestamp_ms)
            segment.end_offset = batch.next_offset
            batch.view.release()
    return segment.size


def _complete_batch_at(view: memoryview, position: int, offset: int) -> LogRecordBatch | None:
    try:
        batch = read_header(view, position)
    except FlussError:
        return None
    if batch.base_offset != offset or batch.magic != 0 or batch.last_offset_delta < 0 or not has_valid_checksum(batch):
        batch.view.release()
        return None
    return batch


def _truncate(segment: Segment, file_size: int) -> None:
    """Truncate to the last complete batch. Raises LOG_STORAGE if the rest is not a torn write."""
    tail = os.pread(segment.descriptor(), min(file_size - segment.size, _SEARCH_BYTES), segment.size)
    following = _find_batch(tail, segment.end_offset)
    if following is not None and not _has_hole(tail[:following], segment.size):
        raise _damaged(segment.path, f"incomplete batch before complete ones. position={segment.size}")
    _logger.warning(
        "truncated an incomplete batch at the end of a log. path=%s position=%d bytes=%d",
        segment.path,
        segment.size,
        file_size - segment.size,
    )
    os.ftruncate(segment.descriptor(), segment.size)


def _find_batch(tail: bytes, offset: int) -> int | None:
    """The position of a complete batch with a later offset after the incomplete one, if there is one."""
    view = memoryview(tail)
    # Candidates: the highest byte of the offset and the magic are 0, which is rare in compressed data or text.
    at = tail.find(b"\0", 1)
    while at != -1:
        position = at - 7
        if position > 0 and at + 5 < len(tail) and tail[at + 5] == 0:
            base = int.from_bytes(tail[position : position + 8], "little")
            if offset < base < offset + 2**40:
                with suppress(FlussError):
                    batch = read_header(view, position)
                    if batch.record_count >= 0 and has_valid_checksum(batch):
                        return position
        at = tail.find(b"\0", at + 1)
    return None


def _has_hole(bad: bytes, position: int) -> bool:
    """Whether a block was never written."""
    start = -position % _BLOCK_BYTES
    empty = bytes(_BLOCK_BYTES)
    return any(bad[at : at + _BLOCK_BYTES] == empty for at in range(start, len(bad) - _BLOCK_BYTES + 1, _BLOCK_BYTES))


def _damaged(path: str, reason: str) -> FlussError:
    return FlussError(ErrorCode.LOG_STORAGE, f"log is damaged, not opened. path={path} reason={reason}")
