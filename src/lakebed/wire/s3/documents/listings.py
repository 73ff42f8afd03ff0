"""Listings of buckets, objects and versions. Object rows are a hot path: tuples, formatted with one f-string each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from lakebed.wire.aws.timestamps import iso_time

from ..xml import document, escape, join_document
from ._parts import (
    STORAGE_CLASS_ELEMENT,
    OwnerElement,
    boolean,
    checksum_kind_elements,
    common_prefix_elements,
    encode_all,
    optional,
    owner_element,
    text_encoder,
)

__all__ = [
    "BucketRow",
    "ListingHeader",
    "ObjectRow",
    "OwnerElement",
    "VersionRow",
    "write_bucket_list",
    "write_object_list",
    "write_object_list_v2",
    "write_version_list",
]


class BucketRow(NamedTuple):
    """A bucket."""

    name: str
    created_ms: int
    region: str | None = None


ObjectRow: TypeAlias = tuple[str, int, str, int, str | None, str | None]
"""Key, size, ETag without quotes, modification time, checksum algorithm and type of an object.

A plain tuple, which is faster than a named one for pages of a thousand.
"""


class VersionRow(NamedTuple):
    """A version or delete marker; for markers the last four values are ignored."""

    key: str
    version_id: str
    is_latest: bool
    modified_ms: int
    is_delete_marker: bool
    size: int = 0
    etag: str = ""
    checksum_algorithm: str | None = None
    checksum_type: str | None = None


@dataclass(frozen=True, slots=True)
class ListingHeader:
    """The elements of a listing that precede its rows."""

    bucket: str
    prefix: str
    delimiter: str | None
    max_keys: int
    is_truncated: bool
    common_prefixes: Sequence[str] = ()
    is_url_encoded: bool = False
    """Whether the client requested `encoding-type=url`."""
    owner: OwnerElement | None = None
    """In every row, if set. The bucket owner owns all objects."""


def write_bucket_list(
    owner: OwnerElement,
    buckets: Iterable[BucketRow],
    *,
    prefix: str | None = None,
    continuation_token: str | None = None,
) -> bytes:
    """ListAllMyBucketsResult. Truncated lists have a token."""
    rows = "".join(
        [
            f"<Bucket><Name>{escape(row.name)}</Name><CreationDate>{iso_time(row.created_ms)}</CreationDate>"
            f"{optional('BucketRegion', row.region)}</Bucket>"
            for row in buckets
        ]
    )
    return document(
        "ListAllMyBucketsResult",
        f"{owner_element(owner)}<Buckets>{rows}</Buckets>"
        f"{optional('ContinuationToken', continuation_token)}{optional('Prefix', prefix)}",
    )


def _header_elements(listing: ListingHeader) -> str:
    encode = text_encoder(listing.is_url_encoded)
    return (
        f"<Name>{escape(listing.bucket)}</Name><Prefix>{encode(listing.prefix)}</Prefix>"
        f"{optional('Delimiter', listing.delimiter, encode)}"
        f"<MaxKeys>{listing.max_keys}</MaxKeys><IsTruncated>{boolean(listing.is_truncated)}</IsTruncated>"
        f"{'<EncodingType>url</EncodingType>' if listing.is_url_encoded else ''}"
    )


def _object_elements(listing: ListingHeader, rows: Sequence[ObjectRow]) -> list[bytes]:
    keys = encode_all([row[0] for row in rows], text_encoder(listing.is_url_encoded))
    owner = owner_element(listing.owner)
    last: tuple[str | None, str | None] | None = None
    end = ""
    written: list[bytes] = []
    append = written.append
    for key, (_, size, etag, modified_ms, algorithm, checksum_type) in zip(keys, rows, strict=True):
        kind = (algorithm, checksum_type)
        if kind != last:  # most rows are of one kind
            last = kind
            end = f"{checksum_kind_elements(*kind)}{owner}{STORAGE_CLASS_ELEMENT}</Contents>"
        append(
            f"<Contents><Key>{key}</Key><LastModified>{iso_time(modified_ms)}</LastModified>"
            f"<ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size>{end}".encode()
        )
    return written


def write_object_list(
    listing: ListingHeader, rows: Sequence[ObjectRow], *, marker: str = "", next_marker: str | None = None
) -> bytes:
    """ListBucketResult of ListObjects. `next_marker` is for truncated listings with a delimiter."""
    encode = text_encoder(listing.is_url_encoded)
    header = (
        f"{_header_elements(listing)}<Marker>{encode(marker)}</Marker>{optional('NextMarker', next_marker, encode)}"
    )
    return _listing_document("ListBucketResult", listing, header, _object_elements(listing, rows))


def write_object_list_v2(
    listing: ListingHeader,
    rows: Sequence[ObjectRow],
    *,
    continuation_token: str | None = None,
    next_continuation_token: str | None = None,
    start_after: str | None = None,
) -> bytes:
    """ListBucketResult of ListObjectsV2. KeyCount includes common prefixes."""
    header = (
        f"{_header_elements(listing)}<KeyCount>{len(rows) + len(listing.common_prefixes)}</KeyCount>"
        f"{optional('ContinuationToken', continuation_token)}"
        f"{optional('NextContinuationToken', next_continuation_token)}"
        f"{optional('StartAfter', start_after, text_encoder(listing.is_url_encoded))}"
    )
    return _listing_document("ListBucketResult", listing, header, _object_elements(listing, rows))


def write_version_list(
    listing: ListingHeader,
    rows: Sequence[VersionRow],
    *,
    key_marker: str = "",
    version_id_marker: str = "",
    next_key_marker: str | None = None,
    next_version_id_marker: str | None = None,
) -> bytes:
    """ListVersionsResult. `rows` are in order, with the newest version of each key first."""
    encode = text_encoder(listing.is_url_encoded)
    header = (
        f"{_header_elements(listing)}<KeyMarker>{encode(key_marker)}</KeyMarker>"
        f"<VersionIdMarker>{escape(version_id_marker)}</VersionIdMarker>"
        f"{optional('NextKeyMarker', next_key_marker, encode)}"
        f"{optional('NextVersionIdMarker', next_version_id_marker)}"
    )
    return _listing_document("ListVersionsResult", listing, header, _version_elements(listing, rows))


def _listing_document(root: str, listing: ListingHeader, header: str, rows: list[bytes]) -> bytes:
    prefixes = common_prefix_elements(listing.common_prefixes, text_encoder(listing.is_url_encoded))
    return join_document(root, [header.encode(), *rows, *prefixes])


def _version_elements(listing: ListingHeader, rows: Sequence[VersionRow]) -> list[bytes]:
    keys = encode_all([row.key for row in rows], text_encoder(listing.is_url_encoded))
    owner = owner_element(listing.owner)
    written: list[bytes] = []
    for key, row in zip(keys, rows, strict=True):
        start = (
            f"<Key>{key}</Key><VersionId>{row.version_id}</VersionId><IsLatest>{boolean(row.is_latest)}</IsLatest>"
            f"<LastModified>{iso_time(row.modified_ms)}</LastModified>{owner}"
        )
        if row.is_delete_marker:
            written.append(f"<DeleteMarker>{start}</DeleteMarker>".encode())
            continue
        written.append(
            f"<Version>{start}<ETag>&quot;{row.etag}&quot;</ETag><Size>{row.size}</Size>"
            f"{STORAGE_CLASS_ELEMENT}{checksum_kind_elements(row.checksum_algorithm, row.checksum_type)}"
            "</Version>".encode()
        )
    return written
