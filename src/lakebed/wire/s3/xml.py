"""XML as S3 speaks it: bounded, entity-free reading into a light tree, and writing by joining strings.

Reading goes by local names, because clients differ in namespaces and prefixes. What a document holds twice, or does not
hold, or holds besides what its schema has, is refused: a setting that would be ignored is worse than an error.
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
"""Elements of a document whose schema does not say how many it can have. A parser stops at the first one beyond."""

_MAX_DEPTH: Final = 32
_SLICE_BYTES: Final = 64 * 1024
"""How much is parsed at a time: between slices, other threads get their turn."""

_MAX_MARKUP_BYTES: Final = 2 * _SLICE_BYTES
"""Longest tag or comment, which expat reads whole before it reports anything of it."""

T = TypeVar("T")


class MalformedDocument(InvalidInput):
    """The document is not well-formed, or not what its schema asks for."""


class XmlElement:
    """One element: its local name, its text, its children in order."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[XmlElement] = []

    def only(self, *names: str) -> XmlElement:
        """The same element, after checking that no child has another name."""
        for child in self.children:
            if child.name not in names:
                raise MalformedDocument(f"unknown element. parent={self.name} name={child.name[:100]}")
        return self

    def texts(self) -> dict[str, str]:
        """The texts of all children by their names, none of which may be repeated. Fast, for documents of many rows."""
        found = {child.name: child.text for child in self.children}
        if len(found) != len(self.children):
            raise MalformedDocument(f"element is repeated. parent={self.name}")
        return found

    def all(self, name: str) -> Iterator[XmlElement]:
        """Children of that name, in order."""
        return (child for child in self.children if child.name == name)

    def optional(self, name: str) -> XmlElement | None:
        """The one child of that name, if there is one."""
        found: XmlElement | None = None
        for child in self.children:
            if child.name == name:
                if found is not None:
                    raise MalformedDocument(f"element is repeated. parent={self.name} name={name}")
                found = child
        return found

    def required(self, name: str) -> XmlElement:
        """The one child of that name."""
        found = self.optional(name)
        if found is None:
            raise MalformedDocument(f"element is missing. parent={self.name} name={name}")
        return found

    def text_of(self, name: str) -> str:
        """The text of the one child of that name, as it stands."""
        return self.required(name).text

    def optional_text(self, name: str) -> str | None:
        """The text of a child that may be absent."""
        found = self.optional(name)
        return None if found is None else found.text

    def int_of(self, name: str) -> int:
        """The whole number in the one child of that name."""
        return parse_int(name, self.text_of(name))

    def optional_int(self, name: str) -> int | None:
        """The whole number in a child that may be absent."""
        text = self.optional_text(name)
        return None if text is None else parse_int(name, text)

    def optional_bool(self, name: str) -> bool | None:
        """`true` or `false` in a child that may be absent."""
        found = self.optional(name)
        if found is None:
            return None
        word = found.text.strip().lower()
        if word not in ("true", "false"):
            raise MalformedDocument(f"expected true or false. name={name} value={found.text[:100]!r}")
        return word == "true"

    def optional_time(self, name: str) -> int | None:
        """The time in a child that may be absent, as milliseconds since the epoch."""
        found = self.optional(name)
        return None if found is None else parse_time(found.text)

    def choice_of(self, name: str, choices: type[T]) -> T:
        """The text of the one child of that name as a member of the enumeration `choices`."""
        text = self.text_of(name)
        try:
            return choices(text)  # type: ignore[call-arg]  # enumerations look their members up by value
        except ValueError:
            raise MalformedDocument(f"unknown value. name={name} value={text[:100]!r}") from None


_INT: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


def parse_int(name: str, text: str) -> int:
    """The whole number that an element of that name holds."""
    if not _INT.fullmatch(text):
        raise MalformedDocument(f"expected a whole number. name={name} value={text[:100]!r}")
    return int(text)


def parse_document(body: bytes | bytearray | memoryview, *roots: str, max_elements: int = MAX_ELEMENTS) -> XmlElement:
    """Read a document whose outermost element is one of `roots`. Raises MalformedDocument for everything else.

    UTF-8 only, no DOCTYPE and so no entities but XML's own five, at most 8 MiB, 32 levels and `max_elements`.
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

    def refuse_doctype(*_: object) -> None:
        raise MalformedDocument("document has a DOCTYPE, which is not accepted")

    # The encoding given here overrides what the document declares, so that no other can carry a DOCTYPE past us.
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = refuse_doctype
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
    """Text for use between tags. Characters that XML 1.0 lacks become numeric references, as in S3's answers."""
    # Deleting what is unsafe and comparing lengths is many times faster than a regular expression that finds nothing.
    if text.isascii() and len(text.encode().translate(None, _UNSAFE_ASCII)) == len(text):
        return text
    return _UNSAFE.sub(lambda found: _REFERENCES.get(found[0]) or f"&#x{ord(found[0]):X};", text)


_URL_SAFE: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"


def url_encode(text: str) -> str:
    """Text as `encoding-type=url` asks: percent-encoded UTF-8, `/` kept. What comes out needs no escaping."""
    raw = text.encode("utf-8", "replace")
    unsafe = raw.translate(None, _URL_SAFE)
    if not unsafe:
        return text
    if not unsafe.strip(b"="):  # keys of partitioned tables: dt=2026-01-01/…
        return text.replace("=", "%3D")
    return quote(raw, safe="/")


def document(root: str, content: str, *, namespace: bool = True) -> bytes:
    """A whole document of that root element."""
    # A key is valid Unicode; what an error answer echoes from a request need not be.
    return join_document(root, [content.encode("utf-8", "replace")], namespace=namespace)


def join_document(root: str, pieces: Iterable[bytes], *, namespace: bool = True) -> bytes:
    """A whole document of that root element, of many encoded pieces.

    A long answer is several times cheaper this way than encoded at the end, because it is laid out in memory once.
    """
    xmlns = f' xmlns="{NAMESPACE}"' if namespace else ""
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{xmlns}>'
    return b"".join([head.encode(), *pieces, f"</{root}>".encode()])


_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch, from ISO 8601 (a bare date is its midnight, UTC) or the form of HTTP's headers."""
    text = text.strip()
    try:
        moment = datetime.fromisoformat(text) if _ISO.fullmatch(text) else parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.astimezone(UTC).timestamp() * 1000)  # what is no time in UTC could not be written again
    except (ValueError, OverflowError) as error:
        raise MalformedDocument(f"not a time. value={text[:100]!r}") from error
