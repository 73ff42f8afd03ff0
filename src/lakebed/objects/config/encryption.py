"""Default encryption of a bucket: SSE-S3 only, with the server's master keys."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import InvalidEncryption, NotSupported

__all__ = ["BucketEncryption", "EncryptionAlgorithm", "parse_encryption_algorithm"]

_KMS_ALGORITHMS: Final = frozenset({"aws:kms", "aws:kms:dsse", "aws:fsx", "aws:backup"})


class EncryptionAlgorithm(StrEnum):
    """How objects are encrypted at rest."""

    AES256 = "AES256"


@dataclass(frozen=True, slots=True)
class BucketEncryption:
    """Encryption of new objects whose request does not specify it."""

    algorithm: EncryptionAlgorithm = EncryptionAlgorithm.AES256
    bucket_key_enabled: bool = False
    """Stored and returned only: it reduces calls to a KMS, and there is none."""


def parse_encryption_algorithm(name: str) -> EncryptionAlgorithm:
    """Parse an algorithm's name. Raises NotSupported for KMS algorithms, InvalidEncryption for others."""
    try:
        return EncryptionAlgorithm(name)
    except ValueError:
        if name in _KMS_ALGORITHMS:
            raise NotSupported(f"encryption with a KMS is not supported. algorithm={name}") from None
        raise InvalidEncryption(f"unknown encryption algorithm. expected=AES256 value={name[:100]!r}") from None
