"""What a bucket's notification configuration said when: versions by the number of the event from which on each holds.

A version holds for the events after its number, up to the number of the next one of the same bucket. It is kept under
the bucket's name, which is what events have: a bucket that is removed ends its rules with a version that has none, so
that another of the same name begins without. `lakebed.events.rules` reads them.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import Reader, Transaction

_INSERT: Final = "INSERT INTO notification_versions (bucket, since_seq, document) VALUES (?, ?, ?)"

_LATEST: Final = "SELECT document FROM notification_versions WHERE bucket = ? ORDER BY since_seq DESC LIMIT 1"


async def latest_version(reader: Reader, bucket: str) -> bytes | None:
    """The configuration of a bucket now."""
    row = await reader.row(_LATEST, bucket)
    return None if row is None else row[0]


async def record_version(tx: Transaction, bucket: str, since_seq: int, document: bytes | None) -> None:
    """From that event on a bucket has this configuration, or none."""
    await tx.run(_INSERT, bucket, since_seq, document)
