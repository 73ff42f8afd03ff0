"""S3's rules for completing a multipart upload, for stores that keep parts themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core.errors import InvalidInput, InvalidPart, InvalidPartOrder, PartTooSmall
from .seam import MAX_PARTS, PartReceipt

__all__ = ["check_completion", "check_part_number"]


def check_part_number(number: int) -> None:
    """Raise InvalidInput unless `number` is 1 to 10,000."""
    if not 1 <= number <= MAX_PARTS:
        raise InvalidInput(f"part number out of range. part={number} maximum={MAX_PARTS}", argument="partNumber")


def check_completion(
    listed: Sequence[PartReceipt], stored: Mapping[int, PartReceipt], min_part_bytes: int
) -> list[PartReceipt]:
    """The stored parts that `listed` selects, in order, with the stored sizes.

    Raises InvalidInput for an empty list, InvalidPartOrder, InvalidPart and, if all of them exist, PartTooSmall.
    """
    if not listed:
        raise InvalidInput("no parts to complete", argument="parts")
    chosen: list[PartReceipt] = []
    for receipt in listed:
        if chosen and receipt.number <= chosen[-1].number:
            raise InvalidPartOrder(f"parts are not ascending. part={receipt.number} after={chosen[-1].number}")
        kept = stored.get(receipt.number)
        if kept is None or kept.etag != receipt.etag:
            raise InvalidPart(f"no such part. part={receipt.number} etag={receipt.etag}")
        chosen.append(kept)
    for kept in chosen[:-1]:
        if kept.size < min_part_bytes:
            raise PartTooSmall(f"part is too small. part={kept.number} size={kept.size} minimum={min_part_bytes}")
    return chosen
