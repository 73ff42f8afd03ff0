"""Identifiers: unique without coordination, ordered by time where order helps."""

from __future__ import annotations

import os
import secrets
from typing import NewType

from .clock import Clock

BucketId = NewType("BucketId", int)
BlobId = NewType("BlobId", str)
VersionId = NewType("VersionId", str)
UploadId = NewType("UploadId", str)
RequestId = NewType("RequestId", str)
DeploymentId = NewType("DeploymentId", str)
"""One deployment: all servers that share a metadata store, and its object store."""

NULL_VERSION = VersionId("null")
"""The version of an object written while its bucket was not versioned."""


def new_blob_id(clock: Clock) -> BlobId:
    """A blob id: 12 hex digits of milliseconds, then 20 random ones.

    The time comes first so that a sweep reads a blob's age from its name.
    """
    return BlobId(f"{clock.now_ms():012x}{os.urandom(10).hex()}")


def blob_created_ms(blob: BlobId) -> int:
    """When the blob id was made."""
    return int(blob[:12], 16)


def blob_age_ms(blob: BlobId, clock: Clock) -> int:
    """How long ago the blob id was made."""
    return clock.now_ms() - blob_created_ms(blob)


def new_version_id(clock: Clock) -> VersionId:
    """An opaque version id for clients; the order of versions is stored elsewhere."""
    return VersionId(f"{clock.now_ms():012x}{os.urandom(8).hex()}")


def new_upload_id(clock: Clock) -> UploadId:
    """An opaque multipart upload id that ascends with the start of the upload, as listings require."""
    return UploadId(f"{clock.now_ms():012x}{os.urandom(12).hex()}")


def new_deployment_id() -> DeploymentId:
    """A globally unique deployment id: 26 lower-case letters and digits, safe in headers, keys and identifiers."""
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    return DeploymentId("".join(secrets.choice(alphabet) for _ in range(26)))


def new_access_key_id(prefix: str = "LKBD") -> str:
    """A public key id of 20 upper-case letters and digits, as AWS clients expect."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return prefix + "".join(secrets.choice(alphabet) for _ in range(20 - len(prefix)))


def new_secret_key() -> str:
    """A secret key of 40 characters."""
    return secrets.token_urlsafe(30)


class RequestIds:
    """Request ids: a random prefix per process and a counter, because every request needs one."""

    __slots__ = ("_counter", "_prefix")

    def __init__(self) -> None:
        self._prefix = int.from_bytes(os.urandom(5)) << 24
        self._counter = 0

    def next(self) -> RequestId:
        """The next id: 16 upper-case hex digits."""
        self._counter = (self._counter + 1) & 0xFFFFFF
        return RequestId(f"{self._prefix | self._counter:016X}")
