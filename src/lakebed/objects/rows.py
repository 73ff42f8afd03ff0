"""SQL statements for buckets, objects and uploads, and the conversion of rows. Only this module knows the columns."""

from __future__ import annotations

from typing import Final

from lakebed.core.ids import BucketId
from lakebed.meta.seam import MetaStore, Row

from .model import (
    StoredObject,
    StoredPart,
    StoredUpload,
    unpack_attributes,
    unpack_extent,
    unpack_result,
    unpack_upload,
)

_OBJECT: Final = "key, rank, version, size, etag, modified_ms, checksum, content, attributes"
_O: Final = "o.key, o.rank, o.version, o.size, o.etag, o.modified_ms, o.checksum, o.content, o.attributes"
_V: Final = _O.replace("o.", "v.") + ", v.is_marker"
_BUCKET: Final = "b.id, b.name, b.owner, b.region, b.created_ms, b.versioning, b.settings"
BUCKET_COLUMNS: Final = 7
OBJECT_COLUMNS: Final = 9

BUCKET_BY_NAME: Final = f"SELECT {_BUCKET} FROM buckets b WHERE b.name = ?"  # noqa: S608  # constants only, here and below
INSERT_BUCKET: Final = (
    "INSERT INTO buckets (name, owner, region, created_ms, versioning, settings) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (name) DO NOTHING RETURNING id"
)
DELETE_BUCKET: Final = "DELETE FROM buckets WHERE id = ?"
UPDATE_BUCKET_SETTINGS: Final = "UPDATE buckets SET settings = ? WHERE id = ?"
UPDATE_BUCKET_VERSIONING: Final = "UPDATE buckets SET versioning = ?, settings = ? WHERE id = ?"
BUCKETS_OF_OWNER: Final = (
    f"SELECT {_BUCKET} FROM buckets b WHERE b.owner = ? AND b.name > ? AND b.name >= ? AND b.name >= '0'"  # noqa: S608
    " ORDER BY b.name LIMIT ?"
)
"""Without external buckets, whose names begin with a slash, like the next."""
ALL_BUCKETS: Final = f"SELECT {_BUCKET} FROM buckets b WHERE b.name > ? AND b.name >= '0' ORDER BY b.name LIMIT ?"  # noqa: S608
BUCKET_HAS_OBJECTS: Final = "SELECT 1 FROM objects WHERE bucket = ? LIMIT 1"
BUCKET_HAS_VERSIONS: Final = "SELECT 1 FROM versions WHERE bucket = ? LIMIT 1"
BUCKET_UPLOADS: Final = "SELECT id FROM uploads WHERE bucket = ?"

HEAD: Final = (
    f"SELECT {_BUCKET}, {_O} FROM buckets b"  # noqa: S608
    " LEFT JOIN objects o ON o.bucket = b.id AND o.key = ? WHERE b.name = ?"
)
GET: Final = (
    f"SELECT {_BUCKET}, {_O}, c.body, c.seal, c.layout FROM buckets b"  # noqa: S608
    " LEFT JOIN objects o ON o.bucket = b.id AND o.key = ?"
    " LEFT JOIN contents c ON c.id = o.content WHERE b.name = ?"
)
CURRENT: Final = f"SELECT {_OBJECT} FROM objects WHERE bucket = ? AND key = ?"  # noqa: S608
NEWEST_VERSION: Final = f"SELECT {_V} FROM versions v WHERE v.bucket = ? AND v.key = ? ORDER BY v.rank LIMIT 1"  # noqa: S608
VERSION: Final = f"SELECT {_V} FROM versions v WHERE v.bucket = ? AND v.key = ? AND v.version = ?"  # noqa: S608
CONTENT: Final = "SELECT body, seal, layout FROM contents WHERE id = ?"
UPSERT_OBJECT: Final = (
    f"INSERT INTO objects (bucket, {_OBJECT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (bucket, key) DO UPDATE SET rank = excluded.rank, version = excluded.version,"
    " size = excluded.size, etag = excluded.etag, modified_ms = excluded.modified_ms, checksum = excluded.checksum,"
    " content = excluded.content, attributes = excluded.attributes"
)
DELETE_OBJECT: Final = "DELETE FROM objects WHERE bucket = ? AND key = ?"
INSERT_VERSION: Final = f"INSERT INTO versions (bucket, {_OBJECT}, is_marker) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
DELETE_VERSION: Final = "DELETE FROM versions WHERE bucket = ? AND key = ? AND rank = ?"
UPDATE_OBJECT_ATTRIBUTES: Final = "UPDATE objects SET attributes = ? WHERE bucket = ? AND key = ?"
UPDATE_VERSION_ATTRIBUTES: Final = "UPDATE versions SET attributes = ? WHERE bucket = ? AND key = ? AND rank = ?"

INSERT_CONTENT: Final = "INSERT INTO contents (refs, body, seal, layout) VALUES (1, ?, ?, ?) RETURNING id"
INSERT_COMPOSED_CONTENT: Final = "INSERT INTO contents (refs, layout, lender) VALUES (1, ?, ?) RETURNING id"
BASE_OF_CONTENT: Final = "SELECT lender FROM contents WHERE id = ?"
SHARE_CONTENT: Final = "UPDATE contents SET refs = refs + 1 WHERE id = ?"
DROP_CONTENT: Final = "DELETE FROM contents WHERE id = ? AND refs = 1 RETURNING layout, lender"
UNSHARE_CONTENT: Final = "UPDATE contents SET refs = refs - 1 WHERE id = ?"
INSERT_BLOB: Final = "INSERT INTO blobs (id) VALUES (?)"
DELETE_BLOB: Final = "DELETE FROM blobs WHERE id = ?"
INSERT_GARBAGE: Final = "INSERT INTO garbage (id, due_ms, size) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING"
DUE_GARBAGE: Final = "SELECT id, size FROM garbage WHERE due_ms <= ? ORDER BY due_ms LIMIT ?"
DELETE_GARBAGE: Final = "DELETE FROM garbage WHERE id = ?"
NEWEST_BLOBS: Final = "SELECT id FROM blobs WHERE id > '' ORDER BY id DESC LIMIT ?"
BLOB_IS_REFERRED_TO: Final = "SELECT 1 FROM blobs WHERE id = ?"
BLOB_IS_LIVE: Final = "SELECT 1 FROM blobs WHERE id = ? UNION ALL SELECT 1 FROM garbage WHERE id = ?"

LIST_PAGE: Final = (
    "SELECT key, size, etag, modified_ms, checksum FROM objects WHERE bucket = ? AND key > ? ORDER BY key LIMIT ?"
)
LIST_PAGE_FROM: Final = (
    "SELECT key, size, etag, modified_ms, checksum FROM objects WHERE bucket = ? AND key >= ? ORDER BY key LIMIT ?"
)
LIST_PAGE_WITHIN: Final = (
    "SELECT key, size, etag, modified_ms, checksum FROM objects"
    " WHERE bucket = ? AND key > ? AND key < ? ORDER BY key LIMIT ?"
)
LIST_PAGE_FROM_WITHIN: Final = (
    "SELECT key, size, etag, modified_ms, checksum FROM objects"
    " WHERE bucket = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?"
)

_LISTED: Final = "key, rank, version, size, etag, modified_ms, checksum"
_LIST_CURRENT: Final = f"SELECT {_LISTED}, 0 AS is_marker FROM objects WHERE bucket = ? AND (key, rank) > (?, ?)"  # noqa: S608
_LIST_OTHERS: Final = f"SELECT {_LISTED}, is_marker FROM versions WHERE bucket = ? AND (key, rank) > (?, ?)"  # noqa: S608
_CURRENT_AFTER: Final = f"SELECT {_OBJECT}, 0 AS is_marker FROM objects WHERE bucket = ? AND key > ?"  # noqa: S608
_OTHERS_AFTER: Final = f"SELECT {_OBJECT}, is_marker FROM versions WHERE bucket = ? AND key > ?"  # noqa: S608


def _merged(current: str, others: str) -> str:
    """Merge both tables in order: SQLite reads their indexes side by side."""
    return f"{current} UNION ALL {others} ORDER BY key, rank LIMIT ?"


def _merged_pages(current: str, others: str) -> str:
    """The same for PostgreSQL, which would read and sort both tables: merges a page of each. Takes three limits."""
    return (
        f"SELECT * FROM ({current} ORDER BY key LIMIT ?) o"  # noqa: S608
        f" UNION ALL SELECT * FROM ({others} ORDER BY key, rank LIMIT ?) v ORDER BY key, rank LIMIT ?"
    )


LISTED_VERSIONS_AFTER: Final = _merged(_LIST_CURRENT, _LIST_OTHERS)
POSTGRES_LISTED_VERSIONS_AFTER: Final = _merged_pages(_LIST_CURRENT, _LIST_OTHERS)
ALL_VERSIONS_AFTER: Final = _merged(_CURRENT_AFTER, _OTHERS_AFTER)
POSTGRES_ALL_VERSIONS_AFTER: Final = _merged_pages(_CURRENT_AFTER, _OTHERS_AFTER)
ALL_VERSIONS_OF: Final = (
    f"SELECT {_OBJECT}, 0 AS is_marker FROM objects WHERE bucket = ? AND key = ?"  # noqa: S608
    f" UNION ALL SELECT {_OBJECT}, is_marker FROM versions WHERE bucket = ? AND key = ?"
    " ORDER BY key, rank"
)
RANK_OF_VERSION: Final = (
    "SELECT rank FROM objects WHERE bucket = ? AND key = ? AND version = ?"
    " UNION ALL SELECT rank FROM versions WHERE bucket = ? AND key = ? AND version = ?"
)

_UPLOAD: Final = "id, bucket, key, started_ms, attributes, finished_ms, result"
_PART: Final = "number, size, etag, modified_ms, checksum, piece"
INSERT_UPLOAD: Final = "INSERT INTO uploads (id, bucket, key, started_ms, attributes) VALUES (?, ?, ?, ?, ?)"
UPLOAD: Final = f"SELECT {_UPLOAD} FROM uploads WHERE id = ?"  # noqa: S608
DELETE_UPLOAD: Final = "DELETE FROM uploads WHERE id = ?"
FINISH_UPLOAD: Final = "UPDATE uploads SET finished_ms = ?, result = ? WHERE id = ?"
FINISHED_UPLOADS: Final = "SELECT id FROM uploads WHERE finished_ms IS NOT NULL AND finished_ms < ? LIMIT ?"
UPLOADS_AFTER: Final = (
    f"SELECT {_UPLOAD} FROM uploads"  # noqa: S608
    " WHERE bucket = ? AND finished_ms IS NULL AND (key, id) > (?, ?) ORDER BY key, id LIMIT ?"
)
UPSERT_PART: Final = (
    f"INSERT INTO parts (upload, {_PART}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (upload, number) DO UPDATE SET size = excluded.size, etag = excluded.etag,"
    " modified_ms = excluded.modified_ms, checksum = excluded.checksum, piece = excluded.piece"
)
PART: Final = f"SELECT {_PART} FROM parts WHERE upload = ? AND number = ?"  # noqa: S608
PARTS_AFTER: Final = f"SELECT {_PART} FROM parts WHERE upload = ? AND number > ? ORDER BY number LIMIT ?"  # noqa: S608
DELETE_PARTS: Final = "DELETE FROM parts WHERE upload = ?"


def object_from(row: Row) -> StoredObject:
    """The current version, from the columns of `CURRENT`."""
    return StoredObject(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], unpack_attributes(row[8]))


def version_from(row: Row) -> StoredObject:
    """Any version, from the columns of `VERSION`."""
    return object_from(row)._replace(is_marker=bool(row[9]))


def upload_from(row: Row) -> StoredUpload:
    """A multipart upload, from the columns of `UPLOAD`."""
    result = unpack_result(row[6]) if row[6] is not None else None
    return StoredUpload(row[0], BucketId(row[1]), row[2], row[3], unpack_upload(row[4]), row[5], result)


def part_from(row: Row) -> StoredPart:
    """A part, from the columns of `PART`."""
    return StoredPart(row[0], row[1], row[2], row[3], row[4], unpack_extent(row[5]))


async def listed_versions_after(meta: MetaStore, bucket: BucketId, key: str, rank: int, limit: int) -> list[Row]:
    """A page of versions and delete markers after a position, for listings. One statement, so one snapshot."""
    position = (bucket, key, rank)
    if meta.dialect == "postgres":
        return await meta.rows(POSTGRES_LISTED_VERSIONS_AFTER, *position, limit, *position, limit, limit)
    return await meta.rows(LISTED_VERSIONS_AFTER, *position, *position, limit)


async def all_versions_after(meta: MetaStore, bucket: BucketId, key: str, limit: int) -> list[Row]:
    """A page of versions and delete markers of the keys after `key`, with the columns of `VERSION`. One snapshot."""
    position = (bucket, key)
    if meta.dialect == "postgres":
        return await meta.rows(POSTGRES_ALL_VERSIONS_AFTER, *position, limit, *position, limit, limit)
    return await meta.rows(ALL_VERSIONS_AFTER, *position, *position, limit)
