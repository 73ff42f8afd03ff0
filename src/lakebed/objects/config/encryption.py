"""Default encryption of a bucket: with keys that the server holds, which is the only kind in this build."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebed.core.errors import InvalidEncryption, NotSupported

__all__ = ["BucketEncryption", "EncryptionAlgorithm", "parse_encryption_algorithm"]

_WITH_KEY_SERVICE: Final = frozenset({"aws:kms", "aws:kms:dsse", "aws:fsx", "aws:backup"})


class EncryptionAlgorithm(StrEnum):
    """How objects are encrypted at rest."""

    AES256 = "AES256"


@dataclass(frozen=True, slots=True)
class BucketEncryption:
    """What new objects get when their request asks for nothing."""

    algorithm: EncryptionAlgorithm = EncryptionAlgorithm.AES256
    bucket_key_enabled: bool = False
    """Kept and shown. It saves calls to a key service, and there are none."""


def parse_encryption_algorithm(name: str) -> EncryptionAlgorithm:
    """Read an algorithm's name. Raises NotSupported for keys of a key service, InvalidEncryption for the rest."""
    try:
        return EncryptionAlgorithm(name)
    except ValueError:
        if name in _WITH_KEY_SERVICE:
            raise NotSupported(f"encryption with a key service is not supported. algorithm={name}") from None
        raise InvalidEncryption(f"unknown encryption algorithm. expected=AES256 value={name[:100]!r}") from None
