"""The manifest of a log: its segments in the object store, as a document that clients can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.streams.seam import RemoteSegment, TableBucket

__all__ = ["LogLocation", "Manifest"]

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LogLocation:
    """The location of a log in the object store, and the names for its manifest."""

    bucket: TableBucket
    database: str
    table: str
    partition_name: str | None = None

    @property
    def folder(self) -> str:
        """The folder of the log in the object store, as clients see it."""
        table = f"{self.database}/{self.table}-{self.bucket.table_id}"
        if self.bucket.partition_id is not None:
            table += f"/{self.partition_name}-p{self.bucket.partition_id}"
        return f"log/{table}/{self.bucket.bucket}"

    def segment(self, segment: RemoteSegment, suffix: str = "log") -> str:
        """The path of a segment or its companion object."""
        return f"{self.folder}/{segment.segment_id}/{segment.start_offset:020d}.{suffix}"


class _Segment(msgspec.Struct, frozen=True):
    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp: int
    size_in_bytes: int


class _Document(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    database: str
    table: str
    table_id: int
    bucket_id: int
    remote_log_segments: tuple[_Segment, ...]
    partition_name: str | None = None
    partition_id: int | None = None
    highest_copied_end_offset: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The remote segments of a log, without gaps."""

    segments: tuple[RemoteSegment, ...] = ()
    uploaded_end: int = 0
    """The end of the records ever uploaded, even if their segments were deleted."""

    def __post_init__(self) -> None:
        for left, right in zip(self.segments, self.segments[1:], strict=False):
            if left.end_offset != right.start_offset:
                raise ValueError(f"gap between segments. end={left.end_offset} next={right.start_offset}")

    @property
    def start_offset(self) -> int:
        """The first offset in a segment."""
        return self.segments[0].start_offset if self.segments else self.uploaded_end

    def followed_by(self, segment: RemoteSegment) -> Manifest:
        """The manifest with a segment appended."""
        return Manifest((*self.segments, segment), segment.end_offset)

    def without(self, count: int) -> Manifest:
        """The manifest without its first segments."""
        return replace(self, segments=self.segments[count:])

    def find(self, offset: int) -> Sequence[RemoteSegment]:
        """The segments from the one that contains `offset`."""
        return [segment for segment in self.segments if segment.end_offset > offset]

    def document(self, location: LogLocation) -> bytes:
        """The manifest as JSON."""
        segments = tuple(
            _Segment(it.segment_id, it.start_offset, it.end_offset, it.max_timestamp_ms, it.size_bytes)
            for it in self.segments
        )
        bucket = location.bucket
        return msgspec.json.encode(
            _Document(
                version=_VERSION,
                database=location.database,
                table=location.table,
                table_id=bucket.table_id,
                bucket_id=bucket.bucket,
                remote_log_segments=segments,
                partition_name=location.partition_name,
                partition_id=bucket.partition_id,
                highest_copied_end_offset=self.uploaded_end,
            )
        )

    @classmethod
    def parse(cls, document: bytes) -> Manifest:
        """Parse the JSON of `document`. Raises LOG_STORAGE."""
        try:
            found = msgspec.json.decode(document, type=_Document)
            if found.version != _VERSION:
                raise ValueError(f"unknown version. version={found.version}")
            segments = tuple(
                RemoteSegment(it.segment_id, it.start_offset, it.end_offset, it.size_in_bytes, it.max_timestamp)
                for it in found.remote_log_segments
            )
            return cls(segments, found.highest_copied_end_offset or 0)
        except (msgspec.MsgspecError, ValueError) as error:
            raise FlussError(ErrorCode.LOG_STORAGE, f"log manifest is invalid. reason={error}") from error
