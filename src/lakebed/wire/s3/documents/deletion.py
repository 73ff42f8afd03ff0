"""Documents of DeleteObjects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..xml import MalformedDocument, XmlElement, document, escape, parse_document, parse_int, parse_time
from ._parts import optional

__all__ = [
    "DeletedRow",
    "DeletionDocument",
    "FailedRow",
    "ObjectToDelete",
    "deleted_keys",
    "read_deletion",
    "write_deletion",
]

_MAX_KEYS: Final = 1000
_MAX_ELEMENTS: Final = 8 * _MAX_KEYS
"""An object has at most six elements. A slightly longer list still gets an error with its length."""


class ObjectToDelete(NamedTuple):
    """An object to delete, with conditions."""

    key: str
    version_id: str | None = None
    etag: str | None = None
    """Without quotes; `*` for any."""
    size: int | None = None
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionDocument:
    """A request to delete 1 to 1,000 objects."""

    objects: tuple[ObjectToDelete, ...]
    is_quiet: bool = False
    """Whether the response contains only errors."""


def read_deletion(body: bytes) -> DeletionDocument:
    """Delete: 1 to 1,000 keys. Raises MalformedDocument."""
    root = parse_document(body, "Delete", max_elements=_MAX_ELEMENTS).only("Object", "Quiet")
    objects = tuple(_read_object(element) for element in root.all("Object"))
    if not 1 <= len(objects) <= _MAX_KEYS:
        raise MalformedDocument(f"expected 1 to {_MAX_KEYS} keys to delete. count={len(objects)}")
    return DeletionDocument(objects, bool(root.optional_bool("Quiet")))


def deleted_keys(body: bytes) -> list[str]:
    """The keys in a Delete document. Raises MalformedDocument."""
    return [one.key for one in read_deletion(body).objects]


_OBJECT_ELEMENTS: Final = frozenset({"Key", "VersionId", "ETag", "Size", "LastModifiedTime"})


def _read_object(element: XmlElement) -> ObjectToDelete:
    texts = element.texts()
    key = texts.get("Key")
    if not key:
        raise MalformedDocument("key is missing or empty. parent=Object")
    if len(texts) == 1:  # nearly always
        return ObjectToDelete(key)
    if not texts.keys() <= _OBJECT_ELEMENTS:
        raise MalformedDocument(f"unknown element. parent=Object name={min(texts.keys() - _OBJECT_ELEMENTS)[:100]}")
    etag, size, modified = texts.get("ETag"), texts.get("Size"), texts.get("LastModifiedTime")
    return ObjectToDelete(
        key,
        texts.get("VersionId") or None,
        None if etag is None else etag.strip().strip('"'),
        None if size is None else parse_int("Size", size),
        None if modified is None else parse_time(modified),
    )


class DeletedRow(NamedTuple):
    """A deleted object."""

    key: str
    version_id: str | None = None
    """The version id in the request."""
    delete_marker: bool = False
    """Whether a delete marker was created or removed."""
    delete_marker_version_id: str | None = None
    """Its version id."""


class FailedRow(NamedTuple):
    """An object that could not be deleted."""

    key: str
    version_id: str | None
    code: str
    message: str


def write_deletion(deleted: Iterable[DeletedRow], failed: Iterable[FailedRow]) -> bytes:
    """DeleteResult."""
    successes = "".join(
        [
            f"<Deleted><Key>{escape(row.key)}</Key>{optional('VersionId', row.version_id)}"
            f"{'<DeleteMarker>true</DeleteMarker>' if row.delete_marker else ''}"
            f"{optional('DeleteMarkerVersionId', row.delete_marker_version_id)}</Deleted>"
            for row in deleted
        ]
    )
    failures = "".join(
        [
            f"<Error><Key>{escape(row.key)}</Key>{optional('VersionId', row.version_id)}"
            f"<Code>{row.code}</Code><Message>{escape(row.message)}</Message></Error>"
            for row in failed
        ]
    )
    return document("DeleteResult", successes + failures)
