"""Offsets of the buckets of a stream table, and the spans between them. Pure.

The JSON form is Fluss's: `{"version":1,"table_id":7,"bucket_offsets":[12,-1]}`, or with
`"partition_offsets":[{"partition_id":3,"bucket_offsets":[…]}]`. The index is the bucket; -1 is unknown.
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
"""The next offset to read, by partition and bucket."""

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """A range of offsets of one bucket; `end` is exclusive."""

    bucket: Bucket
    start: int
    end: int

    @property
    def count(self) -> int:
        """Number of offsets."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """The offsets of all buckets of a table."""

    table_id: int
    offsets: Offsets

    def document(self) -> dict[str, Any]:
        """The JSON form."""
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
        """The JSON form as compact text."""
        return json.dumps(self.document(), separators=(",", ":"))

    @classmethod
    def parse(cls, found: str | Mapping[str, Any]) -> TableOffsets:
        """Parse the JSON form. Raises InvalidInput."""
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
            raise InvalidInput(f"invalid offsets of a stream table. found={str(found)[:200]}") from error


def plan_spans(start: Offsets, begin: Offsets, end: Offsets) -> list[ReadSpan]:
    """Spans to read: for each bucket in `end`, from `start` or the beginning of its log to its end."""
    spans = [
        ReadSpan(bucket, max(start.get(bucket, 0), begin.get(bucket, 0)), last)
        for bucket, last in sorted(end.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
    ]
    return [span for span in spans if span.count > 0]


def missing_spans(start: Offsets, begin: Offsets) -> list[ReadSpan]:
    """Spans that were not read and are deleted: the log begins after them."""
    spans = [ReadSpan(bucket, start.get(bucket, 0), first) for bucket, first in begin.items()]
    return [span for span in spans if span.count > 0]


def _listed(by_bucket: Mapping[int, int]) -> list[int]:
    return [by_bucket.get(bucket, _UNKNOWN) for bucket in range(max(by_bucket, default=-1) + 1)]
