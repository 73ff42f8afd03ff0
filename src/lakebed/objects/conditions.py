"""Conditional requests: whether a read or a write may happen, given the current object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import NoSuchKey, NotModified, PreconditionFailed

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class ReadConditions:
    """Preconditions of a GET, a HEAD or the source of a copy. Times are whole seconds, as in HTTP."""

    if_match: str | None = None
    if_none_match: str | None = None
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """Preconditions of a PUT, a CompleteMultipartUpload, a copy's destination or a DELETE."""

    if_match: str | None = None
    if_none_match: str | None = None
    if_match_size: int | None = None
    if_match_modified_ms: int | None = None

    def __bool__(self) -> bool:
        return (
            self.if_match is not None
            or self.if_none_match is not None
            or self.if_match_size is not None
            or self.if_match_modified_ms is not None
        )


NO_READ_CONDITIONS: Final = ReadConditions()
NO_WRITE_CONDITIONS: Final = WriteConditions()


def etag_matches(condition: str, etag: str) -> bool:
    """Whether a list of ETags, quoted or bare, weak or strong, contains this one."""
    if condition.strip() == ANY:
        return True
    for candidate in condition.split(","):
        text = candidate.strip().removeprefix("W/")
        if text.strip('"') == etag:
            return True
    return False


def check_read(conditions: ReadConditions, etag: str, modified_ms: int) -> None:
    """Raise NotModified or PreconditionFailed, in the order of RFC 9110 §13.2.2."""
    if conditions is NO_READ_CONDITIONS:
        return
    seconds_ms = modified_ms - modified_ms % 1000
    if conditions.if_match is not None:
        if not etag_matches(conditions.if_match, etag):
            raise PreconditionFailed("the object has another etag", condition="If-Match")
    elif conditions.if_unmodified_since_ms is not None and seconds_ms > conditions.if_unmodified_since_ms:
        raise PreconditionFailed("the object was modified since", condition="If-Unmodified-Since")
    if conditions.if_none_match is not None:
        if etag_matches(conditions.if_none_match, etag):
            raise NotModified("the object has this etag", etag=etag, modified_ms=modified_ms)
    elif conditions.if_modified_since_ms is not None and seconds_ms <= conditions.if_modified_since_ms:
        raise NotModified("the object was not modified since", etag=etag, modified_ms=modified_ms)


def check_copy_source(conditions: ReadConditions, etag: str, modified_ms: int) -> None:
    """Like `check_read`; a copy has no 304, so every false condition is a failed precondition."""
    try:
        check_read(conditions, etag, modified_ms)
    except NotModified as unchanged:
        condition = (
            "x-amz-copy-source-If-None-Match" if conditions.if_none_match else "x-amz-copy-source-If-Modified-Since"
        )
        raise PreconditionFailed("the source is unchanged", condition=condition) from unchanged


def check_write(conditions: WriteConditions, etag: str | None) -> None:
    """Check whether a write may replace the current object; `etag` is None if there is none.

    As in S3, If-Match on an absent object is NoSuchKey, not a failed precondition.
    """
    if conditions.if_match is not None:
        if etag is None:
            raise NoSuchKey("there is no object for If-Match")
        if not etag_matches(conditions.if_match, etag):
            raise PreconditionFailed("the object has another etag", condition="If-Match")
    if conditions.if_none_match is not None and etag is not None and etag_matches(conditions.if_none_match, etag):
        raise PreconditionFailed("the object already exists", condition="If-None-Match")


def check_delete(conditions: WriteConditions, etag: str | None, size: int, modified_ms: int) -> None:
    """Check whether a DELETE may remove the current object. As in S3, If-Match on an absent one raises NoSuchKey."""
    if etag is None:
        if conditions.if_match is not None:
            raise NoSuchKey("there is no object for If-Match")
        return
    if conditions.if_match is not None and not etag_matches(conditions.if_match, etag):
        raise PreconditionFailed("the object has another etag", condition="If-Match")
    if conditions.if_match_size is not None and conditions.if_match_size != size:
        raise PreconditionFailed("the object has another size", condition="x-amz-if-match-size")
    wanted = conditions.if_match_modified_ms
    if wanted is not None and wanted // 1000 != modified_ms // 1000:
        raise PreconditionFailed(
            "the object was modified at another time", condition="x-amz-if-match-last-modified-time"
        )
