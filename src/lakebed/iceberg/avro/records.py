"""Decodes the records of an Avro file one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakebed.core.errors import InvalidInput

from .container import AvroBlock, AvroContainer
from .decoding import Decoder

__all__ = ["records_in", "records_of"]


def records_of(container: AvroContainer, decode: Decoder) -> Iterator[list[Any]]:
    """All records, with one block in memory at a time. Raises InvalidInput, TooLarge."""
    for block in container.blocks():
        yield from records_in(block, decode)


def records_in(block: AvroBlock, decode: Decoder) -> Iterator[list[Any]]:
    """The records of a block; the block must have no other bytes. Raises InvalidInput."""
    content, at = block.content, 0
    for _ in range(block.records):
        try:
            values, at = decode(content, at)
        except IndexError:
            raise InvalidInput("avro block ends within a record") from None
        except UnicodeDecodeError:
            raise InvalidInput("avro string is not utf-8") from None
        yield values
    if at != len(content):
        raise InvalidInput("avro block has more bytes than its records")
