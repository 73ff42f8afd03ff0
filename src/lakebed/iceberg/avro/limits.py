"""Limits on the size of one Avro file, its blocks, records and schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_LIMITS", "ReadLimits"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on one Avro file, checked before memory is allocated."""

    encoded_bytes: int = 128 * 1024 * 1024
    decoded_bytes: int = 128 * 1024 * 1024
    records: int = 1_000_000
    header_entries: int = 1024
    schema_bytes: int = 1024 * 1024
    schema_types: int = 100_000
    nesting: int = 32
    items: int = 100_000
    """Items per collection of one record: columns with statistics, split offsets, partition fields."""


DEFAULT_LIMITS: Final = ReadLimits()
