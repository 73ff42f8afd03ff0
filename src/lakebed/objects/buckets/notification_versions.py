"""Versions of a bucket's notification configuration, each valid from an event number on.

A version applies to the events after its number, until the bucket's next version. Versions are stored by bucket name,
which is what events contain: deleting a bucket adds an empty version, so that a new bucket of the same name starts
without rules. Read by `lakebed.events.rules`.
"""

from __future__ import annotations

from typing import Final

from lakebed.meta.seam import Reader, Transaction

_INSERT: Final = "INSERT INTO notification_versions (bucket, since_seq, document) VALUES (?, ?, ?)"

_LATEST: Final = "SELECT document FROM notification_versions WHERE bucket = ? ORDER BY since_seq DESC LIMIT 1"


async def latest_version(reader: Reader, bucket: str) -> bytes | None:
    """The current configuration of a bucket."""
    row = await reader.row(_LATEST, bucket)
    return None if row is None else row[0]


async def record_version(tx: Transaction, bucket: str, since_seq: int, document: bytes | None) -> None:
    """Record the configuration of a bucket, or None, for the events after `since_seq`."""
    await tx.run(_INSERT, bucket, since_seq, document)
