"""JSON documents that are parsed for their known fields and kept as they were written.

A later version of the format, or an engine, may add fields that this one does not know. Each part of a document
therefore keeps its own text next to what was read of it, and is written back by that text: unknown fields survive
byte for byte, and writing costs a copy of the text, whatever is inside.
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
"""A long that cannot be negative."""

_ENCODER: Final = msgspec.json.Encoder()
_PLACE: Final = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?", re.DOTALL)


class DocumentElement(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", gc=False):
    """A part of a document: fields by name, and `written`, the text they were read from."""

    written: Raw = Raw(b"")


T = TypeVar("T")
E = TypeVar("E", bound=DocumentElement)


_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}  # Any: each decodes the type it is filed under


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder


def decode(kind: type[T], written: Raw | bytes, where: str) -> T:
    """Read JSON as a type. Raises InvalidInput that names the field, its path beginning with `where`."""
    try:
        return _decoder(kind).decode(written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(error, where) from error


def read(kind: type[E], written: Raw | bytes, where: str) -> E:
    """Read one part, keeping its text. Raises InvalidInput that names the field."""
    element = decode(kind, written, where)
    # What a document itself calls "written" is of no interest: this overwrites it.
    msgspec.structs.force_setattr(element, "written", written if isinstance(written, Raw) else Raw(written))
    return element


def read_list(kind: type[E], written: Raw | bytes, where: str, like: Sequence[E] = ()) -> list[E]:
    """Read a list of parts, each keeping its text. Raises InvalidInput that names index and field.

    `like` is the list of an earlier document: of a run of parts that stands there in the same words, none is read
    again, wherever in it the run begins.
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
            # A text is a view of its whole document, which would stay as long as a part of it is passed on.
            text = text.copy()
        try:
            element = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(error, f"{where}[{index}]") from error
        keep(element, "written", text)
        elements.append(element)
    return elements


def make(kind: type[E], fields: Mapping[str, object], where: str) -> E:
    """A part that did not exist before, from the fields of its JSON; those that are None are left out."""
    return read(kind, encode({name: value for name, value in fields.items() if value is not None}), where)


def encode(value: object) -> Raw:
    """Compact JSON. Text that was kept goes through as it is."""
    return Raw(_ENCODER.encode(value))


def compact(document: bytes | Raw, where: str) -> bytes:
    """The document without white space between its tokens. Raises InvalidInput if it is not JSON in UTF-8."""
    try:
        plain = bytes(document)
        plain.decode()
        return msgspec.json.format(plain, indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where} is not valid JSON") from error


def split(written: Raw | bytes, where: str) -> dict[str, Raw]:
    """The fields of an object, each as it was written."""
    return decode(dict[str, Raw], written, where)


def rewrite(written: Raw, changes: Mapping[str, object]) -> Raw:
    """The same object with some fields replaced or, at its end, added; all others stay as they were written."""
    return encode({**split(written, ""), **changes})


def same_meaning(one: Raw, other: Raw, ignoring: frozenset[str] = frozenset()) -> bool:
    """Whether two objects say the same: order of fields and absent versus null do not matter, unknown fields do."""
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
    """Refuse a list in which an id stands twice."""
    if len(set(ids)) != len(ids):
        twice = next(one for index, one in enumerate(ids) if one in ids[:index])
        raise InvalidInput(f"{where}: {name} is repeated. {name}={twice}", argument=where, value=str(twice))


def _refusal(error: Exception, where: str) -> InvalidInput:
    if isinstance(error, RecursionError):
        return InvalidInput(f"{where}: nested too deeply", argument=where)
    if not isinstance(error, msgspec.ValidationError):
        return InvalidInput(f"{where}: not valid JSON", argument=where)
    found = _PLACE.fullmatch(str(error))
    if found is None:  # every message matches: its place is optional
        return InvalidInput(f"{where}: {error}", argument=where)
    path = (where + (found["path"] or "")).removeprefix(".")
    reason = found["reason"][:1].lower() + found["reason"][1:]
    return InvalidInput(f"{path}: {reason}" if path else reason, argument=path or None)
