"""Makes a version current, or removes one: steps of the transactions that change a key.

Invariant: `objects` has a row for a key exactly if the newest version of the key is not a delete marker; that row is
the newest version. All other versions, and delete markers, are in `versions`, where a lower rank is newer.

Invariant: `contents.refs` counts the versions with the content, and the composed contents that reference it. So a blob
exists as long as any object references its bytes, even if the object it was uploaded for is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.core.errors import WriteConflict
from lakebed.core.ids import NULL_VERSION, BlobId, VersionId
from lakebed.meta.seam import Transaction, Value

from . import rows
from .blobs.encryption import sealed_size
from .buckets.bucket import Bucket
from .model import DEFAULT_ATTRIBUTES, Extent, StoredObject, pack, unpack_layout
from .rows import object_from, version_from


@dataclass(slots=True)
class NewGarbage:
    """Blobs that a transaction made garbage, for the garbage collector after the commit."""

    due_ms: int
    blobs: list[BlobId] = field(default_factory=list)


async def insert_content(tx: Transaction, extents: list[Extent]) -> int:
    """Insert the extents of an object; the content's id."""
    if len(extents) == 1 and extents[0].blob is None:
        row = await tx.row(rows.INSERT_CONTENT, extents[0].body, extents[0].seal, None)
    else:
        row = await tx.row(rows.INSERT_CONTENT, None, None, pack(extents))
    assert row is not None  # noqa: S101  # RETURNING of an insert
    return int(row[0])


async def insert_composed_content(tx: Transaction, extents: list[Extent], base: int) -> int:
    """Insert the extents of a composed object; the content's id.

    Raises WriteConflict if the base content was deleted.
    """
    if await tx.run(rows.SHARE_CONTENT, base) == 0:
        raise WriteConflict(f"the base content was deleted. content={base}")
    row = await tx.row(rows.INSERT_COMPOSED_CONTENT, pack(extents), base)
    assert row is not None  # noqa: S101  # RETURNING of an insert
    return int(row[0])


async def insert_blob(tx: Transaction, extent: Extent) -> None:
    """Record a reference to the extent's blob, if any."""
    if extent.blob is not None:
        await tx.run(rows.INSERT_BLOB, extent.blob)


async def drop_content(tx: Transaction, content: int | None, garbage: NewGarbage) -> None:
    """Drop one reference to a content. The last one makes its blobs garbage and drops its reference to the base."""
    while content is not None:
        row = await tx.row(rows.DROP_CONTENT, content)
        if row is None:
            await tx.run(rows.UNSHARE_CONTENT, content)
            return
        layout, content = row
        for extent in () if layout is None else unpack_layout(layout):
            if not extent.blob_size:
                await drop_blob(tx, extent, garbage)


async def drop_blob(tx: Transaction, extent: Extent, garbage: NewGarbage) -> None:
    """Make the extent's blob garbage, if it has one."""
    if extent.blob is not None:
        await tx.run(rows.DELETE_BLOB, extent.blob)
        await tx.run(rows.INSERT_GARBAGE, extent.blob, garbage.due_ms, _stored_size(extent))
        garbage.blobs.append(extent.blob)


def _stored_size(extent: Extent) -> int:
    """The size of the extent's blob in the object store."""
    return extent.size if extent.seal is None else sealed_size(extent.size)


async def make_current(
    tx: Transaction, bucket: Bucket, current: StoredObject | None, new: StoredObject, garbage: NewGarbage
) -> StoredObject:
    """Make `new` the current version; the stored version with its rank.

    An unversioned bucket replaces the current version; a versioning-enabled one keeps it; a suspended one keeps it too,
    unless it is the null version, of which a key has only one.
    """
    rank = await _displace(tx, bucket, current, new.version, new.key, garbage)
    stored = new._replace(rank=rank)
    await tx.run(rows.UPSERT_OBJECT, bucket.id, *_columns(stored))
    return stored


async def _displace(
    tx: Transaction,
    bucket: Bucket,
    current: StoredObject | None,
    incoming: VersionId,
    key: str,
    garbage: NewGarbage,
) -> int:
    """Archive or drop the versions that a version with id `incoming` replaces; the rank of the new one."""
    if not bucket.keeps_versions:
        if current is not None:
            await drop_content(tx, current.content, garbage)
        return 0
    newest = current
    if newest is None:
        row = await tx.row(rows.NEWEST_VERSION, bucket.id, key)
        newest = None if row is None else version_from(row)
    if newest is None:
        return 0
    if current is not None:
        if current.version == incoming:
            await drop_content(tx, current.content, garbage)
        else:
            await _archive(tx, bucket, current)
    if incoming == NULL_VERSION and (current is None or current.version != NULL_VERSION):
        row = await tx.row(rows.VERSION, bucket.id, key, NULL_VERSION)
        if row is not None:
            old = version_from(row)
            await tx.run(rows.DELETE_VERSION, bucket.id, key, old.rank)
            await drop_content(tx, old.content, garbage)
    return newest.rank - 1


async def add_marker(
    tx: Transaction,
    bucket: Bucket,
    current: StoredObject | None,
    key: str,
    version: VersionId,
    now_ms: int,
    garbage: NewGarbage,
) -> StoredObject:
    """Add a delete marker to the key."""
    rank = await _displace(tx, bucket, current, version, key, garbage)
    if current is not None:
        await tx.run(rows.DELETE_OBJECT, bucket.id, key)
    marker = StoredObject(key, rank, version, 0, "", now_ms, "", None, DEFAULT_ATTRIBUTES, is_marker=True)
    await _archive(tx, bucket, marker)
    return marker


async def remove_current(tx: Transaction, bucket: Bucket, current: StoredObject, garbage: NewGarbage) -> None:
    """Delete the current version permanently; the next newest becomes current unless it is a delete marker."""
    await drop_content(tx, current.content, garbage)
    await tx.run(rows.DELETE_OBJECT, bucket.id, current.key)
    if bucket.keeps_versions:
        await _promote(tx, bucket, current.key)


async def remove_version(
    tx: Transaction, bucket: Bucket, old: StoredObject, *, has_current: bool, garbage: NewGarbage
) -> None:
    """Delete a noncurrent version or a delete marker; if the key has no current version, the newest one becomes it."""
    await drop_content(tx, old.content, garbage)
    await tx.run(rows.DELETE_VERSION, bucket.id, old.key, old.rank)
    if not has_current:
        await _promote(tx, bucket, old.key)


async def _archive(tx: Transaction, bucket: Bucket, stored: StoredObject) -> None:
    await tx.run(rows.INSERT_VERSION, bucket.id, *_columns(stored), int(stored.is_marker))


async def _promote(tx: Transaction, bucket: Bucket, key: str) -> None:
    row = await tx.row(rows.NEWEST_VERSION, bucket.id, key)
    if row is None:
        return
    newest = version_from(row)
    if newest.is_marker:
        return
    await tx.run(rows.DELETE_VERSION, bucket.id, key, newest.rank)
    await tx.run(rows.UPSERT_OBJECT, bucket.id, *_columns(newest))


async def current_of(tx: Transaction, bucket: Bucket, key: str) -> StoredObject | None:
    """The current version of a key."""
    row = await tx.row(rows.CURRENT, bucket.id, key)
    return None if row is None else object_from(row)


_PACKED_DEFAULT = pack(DEFAULT_ATTRIBUTES)


def _columns(stored: StoredObject) -> tuple[Value, ...]:
    """The columns of `CURRENT`."""
    packed = _PACKED_DEFAULT if stored.attributes is DEFAULT_ATTRIBUTES else pack(stored.attributes)
    return (*stored[:8], packed)
