"""JSON documents, parsed for known fields and preserved as text.

A later format version or an engine may add fields unknown to this build. So each part of a document keeps its own text
beside the parsed fields, and is serialized by that text: unknown fields survive byte for byte, and serializing costs
only a copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw

from lakebed.core.errors import InvalidInput

__all__ = [
    "Count",
    "DocumentElement",
    "Int",
    "Long",
    "check_unique",
    "compact",
    "decode",
    "encode",
    "make",
    "read",
    "read_list",
    "rewrite",
    "same_meaning",
    "split",
]

Int = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""A non-negative long."""

_ENCODER: Final = msgspec.json.Encoder()
_PLACE: Final = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?", re.DOTALL)


class DocumentElement(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", gc=False):
    """A part of a document: its parsed fields, and `written`, its text."""

    written: Raw = Raw(b"")


T = TypeVar("T")
E = TypeVar("E", bound=DocumentElement)


_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}  # Any: each decodes its own type


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder


def decode(kind: type[T], written: Raw | bytes, where: str) -> T:
    """Parse JSON as a type. Raises InvalidInput that names the field; its path begins with `where`."""
    try:
        return _decoder(kind).decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(error, where) from error


def read(kind: type[E], written: Raw | bytes, where: str) -> E:
    """Parse one part and keep its text. Raises InvalidInput that names the field."""
    element = decode(kind, written, where)
    # This overwrites a field named "written" in the document.
    msgspec.structs.force_setattr(element, "written", written if isinstance(written, Raw) else Raw(written))
    return element


def read_list(kind: type[E], written: Raw | bytes, where: str, like: Sequence[E] = ()) -> list[E]:
    """Parse a list of parts, each with its text. Raises InvalidInput that names index and field.

    `like` is the list of an earlier document: parts that are equal to a run in it, byte for byte, are reused.
    """
    decoder = _decoder(kind)
    keep = msgspec.structs.force_setattr
    elements: list[E] = []
    texts = decode(list[Raw], written, where)
    first = next((place for place, known in enumerate(like) if texts and known.written == texts[0]), len(like))
    for index, text in enumerate(texts):
        if first + index < len(like) and like[first + index].written == text:
            elements.append(like[first + index])
            continue
        if like:
            # Copied: a view of the text would keep the whole document in memory.
            text = text.copy()
        try:
            element = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, f"{where}[{index}]") from error
        keep(element, "written", text)
        elements.append(element)
    return elements


def make(kind: type[E], fields: Mapping[str, object], where: str) -> E:
    """A new part, from the fields of its JSON; fields that are None are omitted."""
    return read(kind, encode({name: value for name, value in fields.items() if value is not None}), where)


def encode(value: object) -> Raw:
    """Compact JSON. Preserved text is copied."""
    return Raw(_ENCODER.encode(value))


def compact(document: bytes | Raw, where: str) -> bytes:
    """The document without white space between tokens. Raises InvalidInput if it is not UTF-8 JSON."""
    try:
        plain = bytes(document)
        plain.decode()
        return msgspec.json.format(plain, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where} is not valid JSON") from error


def split(written: Raw | bytes, where: str) -> dict[str, Raw]:
    """The fields of an object, each as text."""
    return decode(dict[str, Raw], written, where)


def rewrite(written: Raw, changes: Mapping[str, object]) -> Raw:
    """The object with some fields replaced or appended; the others keep their text."""
    return encode({**split(written, ""), **changes})


def same_meaning(one: Raw, other: Raw, ignoring: frozenset[str] = frozenset()) -> bool:
    """Whether two objects are equivalent, unknown fields included. Ignores the order of fields, and null fields."""
    return _meaning(one, ignoring) == _meaning(other, ignoring)


def _meaning(written: Raw, ignoring: frozenset[str]) -> object:
    fields = decode(dict[str, object], written, "")
    return _without_nulls({name: value for name, value in fields.items() if name not in ignoring})


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def check_unique(name: str, ids: list[int] | list[str], where: str) -> None:
    """Raise InvalidInput for duplicate ids in a list."""
    if len(set(ids)) != len(ids):
        twice = next(one for index, one in enumerate(ids) if one in ids[:index])
        raise InvalidInput(f"{where}: {name} is repeated. {name}={twice}", argument=where, value=str(twice))


def _refusal(error: Exception, where: str) -> InvalidInput:
    if isinstance(error, RecursionError):
        return InvalidInput(f"{where}: nested too deeply", argument=where)
    if not isinstance(error, msgspec.ValidationError):
        return InvalidInput(f"{where}: not valid JSON", argument=where)
    found = _PLACE.fullmatch(str(error))
    if found is None:  # always matches: the path is optional
        return InvalidInput(f"{where}: {error}", argument=where)
    path = (where + (found["path"] or "")).removeprefix(".")
    reason = found["reason"][:1].lower() + found["reason"][1:]
    return InvalidInput(f"{path}: {reason}" if path else reason, argument=path or None)
