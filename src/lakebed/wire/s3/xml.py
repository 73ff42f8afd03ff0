"""Parses and writes S3's XML: bounded parsing without entities into a small tree; writing by joining strings.

Elements are found by local name, because clients use different namespaces and prefixes. Repeated, missing and unknown
elements are errors: an ignored setting is worse than an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar
from urllib.parse import quote
from xml.parsers import expat

from lakebed.core.errors import InvalidInput

__all__ = [
    "NAMESPACE",
    "MalformedDocument",
    "XmlElement",
    "document",
    "escape",
    "join_document",
    "parse_document",
    "parse_int",
    "parse_time",
    "url_encode",
]

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024

MAX_ELEMENTS: Final = 20_000
"""Most elements of a document whose schema has no limit. Parsing stops at the first element beyond."""

_MAX_DEPTH: Final = 32
_SLICE_BYTES: Final = 64 * 1024
"""Bytes parsed at a time: other threads can run between slices."""

_MAX_MARKUP_BYTES: Final = 2 * _SLICE_BYTES
"""Longest tag or comment: expat reads it completely before it reports it."""

T = TypeVar("T")


class MalformedDocument(InvalidInput):
    """The document is not well-formed, or does not match its schema."""


class XmlElement:
    """An element: its local name, its text, its children in order."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[XmlElement] = []

    def only(self, *names: str) -> XmlElement:
        """Check that all children have one of these names; returns the element itself."""
        for child in self.children:
            if child.name not in names:
                raise MalformedDocument(f"unknown element. parent={self.name} name={child.name[:100]}")
        return self

    def texts(self) -> dict[str, str]:
        """The texts of all children by name; names must not repeat. Fast, for documents with many rows."""
        found = {child.name: child.text for child in self.children}
        if len(found) != len(self.children):
            raise MalformedDocument(f"element is repeated. parent={self.name}")
        return found

    def all(self, name: str) -> Iterator[XmlElement]:
        """The children with a name, in order."""
        return (child for child in self.children if child.name == name)

    def optional(self, name: str) -> XmlElement | None:
        """The child with a name, or None; it must not repeat."""
        found: XmlElement | None = None
        for child in self.children:
            if child.name == name:
                if found is not None:
                    raise MalformedDocument(f"element is repeated. parent={self.name} name={name}")
                found = child
        return found

    def required(self, name: str) -> XmlElement:
        """The child with a name, which must exist once."""
        found = self.optional(name)
        if found is None:
            raise MalformedDocument(f"element is missing. parent={self.name} name={name}")
        return found

    def text_of(self, name: str) -> str:
        """The text of a required child."""
        return self.required(name).text

    def optional_text(self, name: str) -> str | None:
        """The text of an optional child."""
        found = self.optional(name)
        return None if found is None else found.text

    def int_of(self, name: str) -> int:
        """The integer in a required child."""
        return parse_int(name, self.text_of(name))

    def optional_int(self, name: str) -> int | None:
        """The integer in an optional child."""
        text = self.optional_text(name)
        return None if text is None else parse_int(name, text)

    def optional_bool(self, name: str) -> bool | None:
        """The boolean in an optional child."""
        found = self.optional(name)
        if found is None:
            return None
        word = found.text.strip().lower()
        if word not in ("true", "false"):
            raise MalformedDocument(f"expected true or false. name={name} value={found.text[:100]!r}")
        return word == "true"

    def optional_time(self, name: str) -> int | None:
        """The time in an optional child, in milliseconds since the epoch."""
        found = self.optional(name)
        return None if found is None else parse_time(found.text)

    def choice_of(self, name: str, choices: type[T]) -> T:
        """The text of a required child as a member of the enumeration `choices`."""
        text = self.text_of(name)
        try:
            return choices(text)  # type: ignore[call-arg]  # calling an enumeration finds a member by its value
        except ValueError:
            raise MalformedDocument(f"unknown value. name={name} value={text[:100]!r}") from None


_INT: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


def parse_int(name: str, text: str) -> int:
    """Parse the integer in an element with this name. Raises MalformedDocument."""
    if not _INT.fullmatch(text):
        raise MalformedDocument(f"expected an integer. name={name} value={text[:100]!r}")
    return int(text)


def parse_document(body: bytes | bytearray | memoryview, *roots: str, max_elements: int = MAX_ELEMENTS) -> XmlElement:
    """Parse a document whose root element is one of `roots`. Raises MalformedDocument.

    Limits: UTF-8, no DOCTYPE and so only the five predefined entities, 8 MiB, 32 levels, `max_elements`.
    """
    if len(body) > MAX_DOCUMENT_BYTES:
        raise MalformedDocument(f"document is too long. bytes={len(body)} limit={MAX_DOCUMENT_BYTES}")
    current = top = XmlElement("")
    above: list[XmlElement] = []
    texts: list[list[str]] = [[]]
    count = 0

    def begin(name: str, _: object) -> None:
        nonlocal current, count
        if len(above) >= _MAX_DEPTH:
            raise MalformedDocument(f"document is nested too deeply. limit={_MAX_DEPTH}")
        count += 1
        if count > max_elements:
            raise MalformedDocument(f"document has too many elements. limit={max_elements}")
        element = XmlElement(name.rpartition(":")[2] if ":" in name else name)
        current.children.append(element)
        above.append(current)
        texts.append([])
        current = element

    def end(_: str) -> None:
        nonlocal current
        current.text = "".join(texts.pop())
        current = above.pop()

    def characters(text: str) -> None:
        texts[-1].append(text)

    def reject_doctype(*_: object) -> None:
        raise MalformedDocument("document has a DOCTYPE, which is not allowed")

    # This encoding overrides the declared one, so that no other encoding can hide a DOCTYPE.
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = reject_doctype
    try:
        data = memoryview(body)
        for start in range(0, len(data), _SLICE_BYTES):
            parser.Parse(bytes(data[start : start + _SLICE_BYTES]), False)
            if start + _SLICE_BYTES - parser.CurrentByteIndex > _MAX_MARKUP_BYTES + _SLICE_BYTES:
                raise MalformedDocument(f"document has a tag that is too long. limit={_MAX_MARKUP_BYTES}")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise MalformedDocument(f"document is not well-formed. {error}") from error
    (found,) = top.children
    if found.name not in roots:
        raise MalformedDocument(f"unexpected document. expected={' or '.join(roots)} found={found.name[:100]}")
    return found


_UNSAFE: Final = re.compile("[&<>\x00-\x08\x0b-\x1f\ufffe\uffff]")
_UNSAFE_ASCII: Final = b"&<>" + bytes({*range(0x20)} - {0x09, 0x0A})
_REFERENCES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    """Escape text between tags. Characters outside XML 1.0 become numeric references, as in S3's responses."""
    # Deleting unsafe characters and comparing lengths is many times faster than a regular expression without a match.
    if text.isascii() and len(text.encode().translate(None, _UNSAFE_ASCII)) == len(text):
        return text
    return _UNSAFE.sub(lambda found: _REFERENCES.get(found[0]) or f"&#x{ord(found[0]):X};", text)


_URL_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"


def url_encode(text: str) -> str:
    """Encode text for `encoding-type=url`: percent-encoded UTF-8 except `/`. The result needs no escaping."""
    raw = text.encode("utf-8", "replace")
    unsafe = raw.translate(None, _URL_SAFE)
    if not unsafe:
        return text
    if not unsafe.strip(b"="):  # keys of partitioned tables: dt=2026-01-01/…
        return text.replace("=", "%3D")
    return quote(raw, safe="/")


def document(root: str, content: str, *, namespace: bool = True) -> bytes:
    """A document with this root element."""
    # Keys are valid Unicode; request values in error documents may not be.
    return join_document(root, [content.encode("utf-8", "replace")], namespace=namespace)


def join_document(root: str, pieces: Iterable[bytes], *, namespace: bool = True) -> bytes:
    """A document with this root element, from encoded pieces.

    For long documents this is several times cheaper than encoding at the end, because memory is allocated once.
    """
    xmlns = f' xmlns="{NAMESPACE}"' if namespace else ""
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{xmlns}>'
    return b"".join([head.encode(), *pieces, f"</{root}>".encode()])


_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, from ISO 8601 (a date alone is midnight UTC) or an HTTP date."""
    text = text.strip()
    try:
        moment = datetime.fromisoformat(text) if _ISO.fullmatch(text) else parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.astimezone(UTC).timestamp() * 1000)  # raises for times outside the range of UTC
    except (ValueError, OverflowError) as error:
        raise MalformedDocument(f"not a time. value={text[:100]!r}") from error
