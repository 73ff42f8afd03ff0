"""Documents of multipart uploads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.core.checksums import Checksum, ChecksumAlgorithm, parse_checksum
from lakebed.core.errors import IntegrityMismatch, InvalidInput
from lakebed.wire.aws.timestamps import iso_time

from ..xml import MalformedDocument, XmlElement, document, escape, join_document, parse_document, parse_int
from ._parts import (
    STORAGE_CLASS_ELEMENT,
    OwnerElement,
    boolean,
    checksum_element,
    checksum_kind_elements,
    common_prefix_elements,
    optional,
    owner_element,
    text_encoder,
    typed_checksum_elements,
)

__all__ = [
    "CompletedPart",
    "PartRow",
    "UploadListing",
    "UploadRow",
    "read_completion",
    "write_completion",
    "write_initiation",
    "write_part_copy",
    "write_part_list",
    "write_upload_list",
]

_MAX_PARTS: Final = 10_000
_MAX_ELEMENTS: Final = 8 * _MAX_PARTS
"""A part has at most four elements. A slightly longer list still gets an error with its length."""

_ALGORITHMS: Final = {f"Checksum{algorithm}": algorithm for algorithm in ChecksumAlgorithm}


class CompletedPart(NamedTuple):
    """A part in the client's list."""

    number: int
    etag: str
    """Without quotes."""
    checksum: Checksum | None = None


def read_completion(body: bytes) -> list[CompletedPart]:
    """CompleteMultipartUpload: 1 to 10,000 parts, in the client's order.

    Raises MalformedDocument, and InvalidInput for a part number out of range or a malformed checksum.
    """
    root = parse_document(body, "CompleteMultipartUpload", max_elements=_MAX_ELEMENTS).only("Part")
    if not 1 <= len(root.children) <= _MAX_PARTS:
        raise MalformedDocument(f"expected 1 to {_MAX_PARTS} parts. count={len(root.children)}")
    return [_read_part(part) for part in root.children]


def _read_part(part: XmlElement) -> CompletedPart:
    texts = part.texts()
    try:
        number = parse_int("PartNumber", texts.pop("PartNumber"))
        etag = texts.pop("ETag")
    except KeyError as missing:
        raise MalformedDocument(f"element is missing. parent=Part name={missing.args[0]}") from None
    if not 1 <= number <= _MAX_PARTS:
        problem = "PartNumber must be >= 1" if number < 1 else f"PartNumber must be <= {_MAX_PARTS}"
        raise InvalidInput(problem, argument="PartNumber", value=str(number))
    checksums = [(_algorithm_of(name), text.strip()) for name, text in texts.items()]
    if len(checksums) > 1:
        raise _invalid_checksum("".join(f"{algorithm}:{text};" for algorithm, text in checksums))
    checksum: Checksum | None = None
    for algorithm, text in checksums:
        try:
            checksum = parse_checksum(algorithm, text)
        except IntegrityMismatch as error:
            raise _invalid_checksum(text) from error
    return CompletedPart(number, etag.strip().strip('"'), checksum)


def _algorithm_of(element_name: str) -> ChecksumAlgorithm:
    known = _ALGORITHMS.get(element_name)
    if known is None:
        raise MalformedDocument(f"unknown element. parent=Part name={element_name[:100]}")
    return known


def _invalid_checksum(value: str) -> InvalidInput:
    return InvalidInput(
        "Invalid Base64 or multiple checksums present in request", argument="Checksum", value=value[:500]
    )


def write_initiation(bucket: str, key: str, upload_id: str) -> bytes:
    """InitiateMultipartUploadResult."""
    return document(
        "InitiateMultipartUploadResult",
        f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{escape(upload_id)}</UploadId>",
    )


def write_completion(location: str, bucket: str, key: str, etag: str, checksum: Checksum | None = None) -> bytes:
    """CompleteMultipartUploadResult. `location` is the object's URL."""
    return document(
        "CompleteMultipartUploadResult",
        f"<Location>{escape(location)}</Location><Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key>"
        f"<ETag>&quot;{etag}&quot;</ETag>{typed_checksum_elements(checksum)}",
    )


def write_part_copy(etag: str, modified_ms: int, checksum: Checksum | None = None) -> bytes:
    """CopyPartResult."""
    return document(
        "CopyPartResult",
        f"<LastModified>{iso_time(modified_ms)}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
        f"{checksum_element(checksum)}",
    )


class PartRow(NamedTuple):
    """An uploaded part."""

    number: int
    size: int
    etag: str
    modified_ms: int
    checksum: Checksum | None = None


def write_part_list(
    bucket: str,
    key: str,
    upload_id: str,
    parts: Sequence[PartRow],
    *,
    part_number_marker: int,
    max_parts: int,
    is_truncated: bool,
    owner: OwnerElement,
    checksum_algorithm: str | None = None,
    checksum_type: str | None = None,
) -> bytes:
    """ListPartsResult. NextPartNumberMarker is the number of the last listed part."""
    next_marker = parts[-1].number if parts else part_number_marker
    rows = "".join(
        [
            f"<Part><PartNumber>{part.number}</PartNumber><LastModified>{iso_time(part.modified_ms)}</LastModified>"
            f"<ETag>&quot;{part.etag}&quot;</ETag><Size>{part.size}</Size>{checksum_element(part.checksum)}</Part>"
            for part in parts
        ]
    )
    return document(
        "ListPartsResult",
        f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{escape(upload_id)}</UploadId>"
        f"{owner_element(owner, 'Initiator')}{owner_element(owner)}{STORAGE_CLASS_ELEMENT}"
        f"<PartNumberMarker>{part_number_marker}</PartNumberMarker>"
        f"<NextPartNumberMarker>{next_marker}</NextPartNumberMarker><MaxParts>{max_parts}</MaxParts>"
        f"<IsTruncated>{boolean(is_truncated)}</IsTruncated>"
        f"{checksum_kind_elements(checksum_algorithm, checksum_type)}{rows}",
    )


class UploadRow(NamedTuple):
    """An incomplete upload."""

    key: str
    upload_id: str
    started_ms: int
    checksum_algorithm: str | None = None
    checksum_type: str | None = None


@dataclass(frozen=True, slots=True)
class UploadListing:
    """The elements of an upload listing that precede its rows."""

    bucket: str
    prefix: str
    delimiter: str | None
    max_uploads: int
    is_truncated: bool
    owner: OwnerElement
    key_marker: str = ""
    upload_id_marker: str = ""
    next_key_marker: str | None = None
    next_upload_id_marker: str | None = None
    common_prefixes: Sequence[str] = ()
    is_url_encoded: bool = False


def write_upload_list(listing: UploadListing, rows: Iterable[UploadRow]) -> bytes:
    """ListMultipartUploadsResult."""
    encode = text_encoder(listing.is_url_encoded)
    owners = f"{owner_element(listing.owner, 'Initiator')}{owner_element(listing.owner)}"
    header = (
        f"<Bucket>{escape(listing.bucket)}</Bucket><KeyMarker>{encode(listing.key_marker)}</KeyMarker>"
        f"<UploadIdMarker>{escape(listing.upload_id_marker)}</UploadIdMarker>"
        f"{optional('NextKeyMarker', listing.next_key_marker, encode)}"
        f"{optional('NextUploadIdMarker', listing.next_upload_id_marker)}"
        f"<Prefix>{encode(listing.prefix)}</Prefix>{optional('Delimiter', listing.delimiter, encode)}"
        f"<MaxUploads>{listing.max_uploads}</MaxUploads>"
        f"<IsTruncated>{boolean(listing.is_truncated)}</IsTruncated>"
        f"{'<EncodingType>url</EncodingType>' if listing.is_url_encoded else ''}"
    )
    uploads = [
        f"<Upload><Key>{encode(row.key)}</Key><UploadId>{escape(row.upload_id)}</UploadId>{owners}"
        f"{STORAGE_CLASS_ELEMENT}<Initiated>{iso_time(row.started_ms)}</Initiated>"
        f"{checksum_kind_elements(row.checksum_algorithm, row.checksum_type)}</Upload>".encode()
        for row in rows
    ]
    return join_document(
        "ListMultipartUploadsResult",
        [header.encode(), *uploads, *common_prefix_elements(listing.common_prefixes, encode)],
    )
