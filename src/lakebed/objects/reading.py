"""Reads objects: GET, HEAD and GetObjectAttributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.errors import InvalidPart, InvalidRange, IsDeleteMarker, NoSuchBucket, NoSuchKey, NoSuchVersion

from . import rows
from .blobs.contents import ByteRange, ContentSource
from .buckets.bucket import Bucket, bucket_from
from .condition_context import ConditionKeys, match_condition_keys, version_condition_keys
from .conditions import NO_READ_CONDITIONS, ReadConditions, check_read
from .context import ObjectContext
from .model import Caller, Content, Extent, StoredObject
from .rows import BUCKET_COLUMNS, OBJECT_COLUMNS, object_from, version_from

_CONTENT_AT = BUCKET_COLUMNS + OBJECT_COLUMNS


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A byte range as in HTTP: `first` alone is open-ended, `suffix` counts from the end."""

    first: int | None = None
    last: int | None = None
    suffix: int | None = None

    def resolve(self, size: int) -> ByteRange:
        """The range in an object of this size. Raises InvalidRange if it is empty."""
        if self.suffix is not None:
            if self.suffix == 0:
                raise InvalidRange("the range is not satisfiable", size=size)
            return ByteRange(max(0, size - self.suffix), size)
        first = self.first or 0
        if first >= size:
            raise InvalidRange("the range starts past the end", size=size)
        return ByteRange(first, size if self.last is None else min(self.last + 1, size))


class FoundObject(NamedTuple):
    """An object that the caller may read."""

    bucket: Bucket
    object: StoredObject
    source: ContentSource | None = None
    part_count: int | None = None
    wanted: ByteRange | None = None
    """The requested range; None for the whole object."""


class ObjectReader:
    """Finds objects and opens their content."""

    def __init__(self, context: ObjectContext) -> None:
        self._context = context

    async def head(
        self,
        caller: Caller,
        bucket_name: str,
        key: str,
        *,
        version: str | None = None,
        conditions: ReadConditions = NO_READ_CONDITIONS,
        wanted: RangeRequest | None = None,
        part: int | None = None,
    ) -> FoundObject:
        """Metadata of an object. Raises NoSuchBucket, NoSuchKey, NoSuchVersion; NotModified, PreconditionFailed."""
        if version is None and part is None:
            row = await self._context.meta.row(rows.HEAD, key, bucket_name)
            bucket, found = await self._checked(caller, row, bucket_name, key, "s3:GetObject", _match(conditions))
            check_read(conditions, found.etag, found.modified_ms)
            chosen = wanted.resolve(found.size) if wanted is not None else None
            return FoundObject(bucket, found, wanted=chosen)
        return await self.get(
            caller, bucket_name, key, version=version, conditions=conditions, wanted=wanted, part=part
        )

    async def get(
        self,
        caller: Caller,
        bucket_name: str,
        key: str,
        *,
        version: str | None = None,
        conditions: ReadConditions = NO_READ_CONDITIONS,
        wanted: RangeRequest | None = None,
        part: int | None = None,
        action: str | None = None,
    ) -> FoundObject:
        """An object with its content source. Raises as `head`; InvalidRange, InvalidPart."""
        context = self._context
        condition_keys = _match(conditions)
        if version is None:
            row = await context.meta.row(rows.GET, key, bucket_name)
            bucket, found = await self._checked(caller, row, bucket_name, key, action or "s3:GetObject", condition_keys)
            assert row is not None  # noqa: S101  # `_checked` raises otherwise
            content = Content(*row[_CONTENT_AT:])
        else:
            bucket, found = await self._find_version(
                caller, bucket_name, key, version, action or "s3:GetObjectVersion", condition_keys
            )
            content = await self.content_of(found)
        check_read(conditions, found.etag, found.modified_ms)
        source = ContentSource(context.contents, found.size, content)
        chosen, count = None, found.attributes.part_count or None
        if part is not None:
            chosen = part_range(source.extents, found, part)
        elif wanted is not None:
            chosen = wanted.resolve(found.size)
        return FoundObject(bucket, found, source, count if part is not None else None, chosen)

    async def content_of(self, found: StoredObject) -> Content:
        """The location of a version's bytes."""
        if found.content is None:
            return Content(None, None, None)
        row = await self._context.meta.row(rows.CONTENT, found.content)
        if row is None:
            # Replaced since its row was read: the caller retries or reports the version as deleted.
            raise NoSuchVersion("the version was removed while it was being read")
        return Content(*row)

    async def find(
        self,
        caller: Caller,
        bucket_name: str,
        key: str,
        version: str | None,
        action: str,
        version_action: str,
        condition_keys: ConditionKeys | None = None,
    ) -> tuple[Bucket, StoredObject]:
        """The given or current version, if the caller may do `action`; policies also see `condition_keys`."""
        if version is None:
            row = await self._context.meta.row(rows.HEAD, key, bucket_name)
            return await self._checked(caller, row, bucket_name, key, action, condition_keys)
        return await self._find_version(caller, bucket_name, key, version, version_action, condition_keys)

    async def _checked(
        self,
        caller: Caller,
        row: tuple[object, ...] | None,
        bucket_name: str,
        key: str,
        action: str,
        condition_keys: ConditionKeys | None,
    ) -> tuple[Bucket, StoredObject]:
        if row is None:
            raise NoSuchBucket(f"no such bucket. bucket={bucket_name}")
        bucket = bucket_from(row)
        if row[BUCKET_COLUMNS] is None:
            await self._raise_absent(caller, bucket, key, action, condition_keys)
        found = object_from(row[BUCKET_COLUMNS:_CONTENT_AT])
        if found.attributes.tags.tags:
            condition_keys = version_condition_keys(None, found) | (condition_keys or {})
        await self._context.authorize_key(caller, bucket, action, key, condition_keys)
        return bucket, found

    async def _raise_absent(
        self, caller: Caller, bucket: Bucket, key: str, action: str, condition_keys: ConditionKeys | None
    ) -> None:
        """Raise for a key without current version: NoSuchKey, or AccessDenied for callers who may not list it."""
        await self._context.authorize_key(caller, bucket, action, key, condition_keys)
        # Authorized like a listing of this key, which a caller with a permission for its prefix could do too.
        await self._context.authorize(caller, bucket, "s3:ListBucket", extra={"s3:prefix": key})
        marker = None
        if bucket.keeps_versions:
            newest = await self._context.meta.row(rows.NEWEST_VERSION, bucket.id, key)
            marker = None if newest is None else str(newest[2])
        raise NoSuchKey(f"no such key. key={key}", delete_marker=marker)

    async def _find_version(
        self,
        caller: Caller,
        bucket_name: str,
        key: str,
        version: str,
        action: str,
        condition_keys: ConditionKeys | None,
    ) -> tuple[Bucket, StoredObject]:
        row = await self._context.meta.row(rows.HEAD, key, bucket_name)
        if row is None:
            raise NoSuchBucket(f"no such bucket. bucket={bucket_name}")
        bucket = bucket_from(row)
        found: StoredObject | None = None
        if row[BUCKET_COLUMNS] is not None and row[BUCKET_COLUMNS + 2] == version:
            found = object_from(row[BUCKET_COLUMNS:])
        else:
            older = await self._context.meta.row(rows.VERSION, bucket.id, key, version)
            found = None if older is None else version_from(older)
        await self._context.authorize_key(
            caller, bucket, action, key, version_condition_keys(version, found) | (condition_keys or {})
        )
        if found is None:
            raise NoSuchVersion(f"no such version. key={key} version={version}")
        if found.is_marker:
            raise IsDeleteMarker(f"the version is a delete marker. key={key} version={version}")
        return bucket, found


def _match(conditions: ReadConditions) -> ConditionKeys | None:
    return None if conditions is NO_READ_CONDITIONS else match_condition_keys(conditions)


def part_range(extents: list[Extent], found: StoredObject, part: int) -> ByteRange:
    """The byte range of a part. Raises InvalidPart. An object that is not multipart has one part, number 1."""
    if not found.attributes.part_count:
        if part != 1:
            raise InvalidPart(f"the object has no such part. part={part}", part=part, count=1)
        return ByteRange(0, found.size)
    offset = 0
    # Part numbers may have gaps: as in S3, number k is the k-th part in order.
    for number, extent in enumerate(extents, 1):
        if number == part:
            return ByteRange(offset, offset + extent.size)
        offset += extent.size
    raise InvalidPart(f"the object has no such part. part={part}", part=part, count=len(extents))
