"""Parses manifest lists of format 1, 2 and 3, reusing the lines that a list shares with its parent's.

A snapshot's list repeats the lines of its parent's and adds its own, before or after them. Writers repeat the encoding
byte for byte, so most of a list of a thousand lines equals a list that was parsed just before. Only the other lines are
decoded.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

from lakebed.core.errors import InvalidInput

from ..avro.container import AvroBlock, open_container
from ..avro.decoding import Decoder
from ..avro.limits import DEFAULT_LIMITS, ReadLimits
from ..avro.records import records_in
from .fields import list_decoder
from .model import FieldSummary, ManifestContent, ManifestFile

__all__ = ["ManifestList", "read_list", "read_manifest_list"]

_CONTENT: Final = ManifestFile._fields.index("content")
_PARTITIONS: Final = ManifestFile._fields.index("partitions")
_ZERO_WHEN_ABSENT: Final = tuple(
    ManifestFile._fields.index(name) for name in ("content", "sequence_number", "min_sequence_number")
)


class ManifestList(NamedTuple):
    """A list, with what is needed to recognize its lines in another list."""

    lines: list[ManifestFile]
    schema: bytes
    encoded: bytes
    """The encoded lines; empty if they were in several blocks."""


def read_manifest_list(data: bytes, *, limits: ReadLimits = DEFAULT_LIMITS) -> list[ManifestFile]:
    """All lines of a manifest list. Raises InvalidInput if it is invalid, TooLarge above the limits."""
    return read_list(data, limits=limits).lines


def read_list(data: bytes, parent: ManifestList | None = None, *, limits: ReadLimits = DEFAULT_LIMITS) -> ManifestList:
    """The same, for parsing lists that share its lines. Shared lines are the parent's objects."""
    container = open_container(data, limits)
    schema, decode = container.schema, list_decoder(container.schema, limits)
    blocks = container.blocks()
    first, second = next(blocks, None), next(blocks, None)
    encoded = first.content if first is not None and second is None else b""
    if first is not None and parent is not None and encoded and parent.encoded and parent.schema == schema:
        lines = _beside(first, parent, decode)
        if lines is not None:
            return ManifestList(lines, schema, encoded)
    found = (block for block in chain((first, second), blocks) if block is not None)
    return ManifestList([line for block in found for line in _lines(block, decode)], schema, encoded)


def _beside(block: AvroBlock, parent: ManifestList, decode: Decoder) -> list[ManifestFile] | None:
    """The lines of a block that begins or ends with the parent's lines; None if it does neither.

    The remaining lines must fill the rest of the block exactly. So the parent's part begins at a line, and has the same
    meaning here.
    """
    rest = block.records - len(parent.lines)
    size = len(parent.encoded)
    if rest < 0:
        return None
    try:
        if block.content.endswith(parent.encoded):
            return [*_lines(AvroBlock(rest, block.content[:-size]), decode), *parent.lines]
        if block.content.startswith(parent.encoded):
            return [*parent.lines, *_lines(AvroBlock(rest, block.content[size:]), decode)]
    except InvalidInput:
        # A coincidence, or corrupt: parsing the whole block decides.
        return None
    return None


def _lines(block: AvroBlock, decode: Decoder) -> list[ManifestFile]:
    return [_line(values) for values in records_in(block, decode)]


def _line(values: list[Any]) -> ManifestFile:
    if values[_PARTITIONS] is not None:
        values[_PARTITIONS] = tuple(FieldSummary._make(summary) for summary in values[_PARTITIONS])
    for slot in _ZERO_WHEN_ABSENT:
        if values[slot] is None:
            values[slot] = 0
    if values[_CONTENT] not in (ManifestContent.DATA, ManifestContent.DELETES):
        raise InvalidInput(f"manifest list has a manifest of unknown content. content={values[_CONTENT]}")
    return ManifestFile._make(values)
