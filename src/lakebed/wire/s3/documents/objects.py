"""Documents of CopyObject, PostObject and GetObjectAttributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakebed.core.checksums import Checksum
from lakebed.wire.aws.timestamps import iso_time

from ..xml import document, escape
from ._parts import boolean, checksum_element, optional, typed_checksum_elements

__all__ = [
    "AttributeParts",
    "ObjectAttributesPart",
    "ObjectPart",
    "write_attributes",
    "write_copy",
    "write_post",
]


def write_copy(etag: str, modified_ms: int, checksum: Checksum | None = None) -> bytes:
    """CopyObjectResult."""
    return document(
        "CopyObjectResult",
        f"<LastModified>{iso_time(modified_ms)}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
        f"{typed_checksum_elements(checksum)}",
    )


def write_post(location: str, bucket: str, key: str, etag: str) -> bytes:
    """PostResponse: the body of a 201 response to a POST upload."""
    return document(
        "PostResponse",
        f"<Location>{escape(location)}</Location><Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key>"
        f"<ETag>&quot;{etag}&quot;</ETag>",
        namespace=False,
    )


class ObjectPart(NamedTuple):
    """A part of a multipart object."""

    number: int
    size: int
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class AttributeParts:
    """A page of an object's parts."""

    count: int
    """Number of all parts."""
    marker: int
    max_parts: int
    is_truncated: bool
    parts: Sequence[ObjectPart] = ()


@dataclass(frozen=True, slots=True)
class ObjectAttributesPart:
    """The requested attributes of an object; None for those that were not requested or do not exist."""

    etag: str | None = None
    checksum: Checksum | None = None
    parts: AttributeParts | None = None
    storage_class: str | None = None
    size: int | None = None


def write_attributes(attributes: ObjectAttributesPart) -> bytes:
    """GetObjectAttributesResponse. Unlike in all other documents, the ETag has no quotes."""
    checksum = attributes.checksum
    return document(
        "GetObjectAttributesResponse",
        f"{optional('ETag', attributes.etag)}"
        f"{'' if checksum is None else f'<Checksum>{typed_checksum_elements(checksum)}</Checksum>'}"
        f"{'' if attributes.parts is None else _parts_element(attributes.parts)}"
        f"{optional('StorageClass', attributes.storage_class)}"
        f"{'' if attributes.size is None else f'<ObjectSize>{attributes.size}</ObjectSize>'}",
    )


def _parts_element(page: AttributeParts) -> str:
    next_marker = page.parts[-1].number if page.parts else page.marker
    rows = "".join(
        [
            f"<Part><PartNumber>{part.number}</PartNumber><Size>{part.size}</Size>{checksum_element(part.checksum)}</Part>"
            for part in page.parts
        ]
    )
    return (
        f"<ObjectParts><PartsCount>{page.count}</PartsCount><PartNumberMarker>{page.marker}</PartNumberMarker>"
        f"<NextPartNumberMarker>{next_marker}</NextPartNumberMarker><MaxParts>{page.max_parts}</MaxParts>"
        f"<IsTruncated>{boolean(page.is_truncated)}</IsTruncated>{rows}</ObjectParts>"
    )
