"""How far a stream table was read: the offsets of its buckets, and what is left to read from there. Pure.

Offsets are written down as the protocol's tools do: `{"version":1,"table_id":7,"bucket_offsets":[12,-1]}`, or with
`"partition_offsets":[{"partition_id":3,"bucket_offsets":[…]}]`. The index is the bucket; -1: nothing is known of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakebed.core.errors import InvalidInput

__all__ = ["Offsets", "ReadSpan", "TableOffsets", "missing_spans", "plan_spans"]

Bucket = tuple[int | None, int]
Offsets = Mapping[Bucket, int]
"""By partition and bucket, the next one to be read."""

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """Records of one bucket, from an offset up to another."""

    bucket: Bucket
    start: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets it has."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """How far all buckets of a table are."""

    table_id: int
    offsets: Offsets

    def document(self) -> dict[str, Any]:
        """As it is written down."""
        by_partition: dict[int | None, dict[int, int]] = {}
        for (partition_id, bucket), offset in self.offsets.items():
            by_partition.setdefault(partition_id, {})[bucket] = offset
        head: dict[str, Any] = {"version": 1, "table_id": self.table_id}
        if None in by_partition:
            return head | {"bucket_offsets": _listed(by_partition[None])}
        parts = [
            {"partition_id": partition_id, "bucket_offsets": _listed(found)}
            for partition_id, found in sorted(by_partition.items(), key=lambda item: item[0] or 0)
        ]
        return head | {"partition_offsets": parts}

    def text(self) -> str:
        """In one line."""
        return json.dumps(self.document(), separators=(",", ":"))

    @classmethod
    def parse(cls, found: str | Mapping[str, Any]) -> TableOffsets:
        """What was written down. Raises InvalidInput."""
        try:
            parts: list[tuple[int | None, Any]]
            document = json.loads(found) if isinstance(found, str) else found
            if "partition_offsets" in document:
                parts = [(int(part["partition_id"]), part["bucket_offsets"]) for part in document["partition_offsets"]]
            else:
                parts = [(None, document["bucket_offsets"])]
            offsets = {
                (partition_id, bucket): int(offset)
                for partition_id, listed in parts
                for bucket, offset in enumerate(listed)
                if int(offset) != _UNKNOWN
            }
            return cls(int(document["table_id"]), offsets)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"these are no offsets of a stream table. found={str(found)[:200]}") from error


def plan_spans(start: Offsets, begin: Offsets, end: Offsets) -> list[ReadSpan]:
    """What is to be read, of each bucket that there is: from where it was left, or where its log begins, to its end."""
    spans = [
        ReadSpan(bucket, max(start.get(bucket, 0), begin.get(bucket, 0)), last)
        for bucket, last in sorted(end.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
    ]
    return [span for span in spans if span.count > 0]


def missing_spans(start: Offsets, begin: Offsets) -> list[ReadSpan]:
    """What was not read yet and cannot be any more: the log begins behind it."""
    spans = [ReadSpan(bucket, start.get(bucket, 0), first) for bucket, first in begin.items()]
    return [span for span in spans if span.count > 0]


def _listed(by_bucket: Mapping[int, int]) -> list[int]:
    return [by_bucket.get(bucket, _UNKNOWN) for bucket in range(max(by_bucket, default=-1) + 1)]
