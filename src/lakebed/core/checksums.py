"""Object checksums: ten algorithms, incremental hashers, and the combination of part checksums.

A multipart object has one of two checksum types. FULL_OBJECT covers all bytes; for CRCs it is computed from the
checksums and lengths of the parts. COMPOSITE covers the parts' digests and ends with `-` and the number of parts.
Neither reads the object again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from awscrt import checksums as crt

from .errors import IntegrityMismatch, InvalidInput

__all__ = [
    "DEFAULT_ALGORITHM",
    "Checksum",
    "ChecksumAlgorithm",
    "ChecksumType",
    "Hasher",
    "PartDigest",
    "composite_checksum",
    "default_type",
    "full_object_checksum",
    "multipart_checksum",
    "new_hasher",
    "parse_algorithm",
    "parse_checksum",
    "parse_type",
    "resolve_type",
]

Buffer: TypeAlias = bytes | bytearray | memoryview


class ChecksumAlgorithm(StrEnum):
    """The supported algorithms, by their names on the wire."""

    CRC32 = "CRC32"
    CRC32C = "CRC32C"
    CRC64NVME = "CRC64NVME"
    SHA1 = "SHA1"
    SHA256 = "SHA256"
    SHA512 = "SHA512"
    MD5 = "MD5"
    XXHASH64 = "XXHASH64"
    XXHASH3 = "XXHASH3"
    XXHASH128 = "XXHASH128"

    @property
    def digest_size(self) -> int:
        """Bytes of a digest."""
        return _DIGEST_BYTES[self]

    @property
    def is_linear(self) -> bool:
        """Whether part digests combine into the digest of the whole object: true of CRCs."""
        return self in _CRC_OF_TWO


class ChecksumType(StrEnum):
    """What the checksum of a multipart object covers."""

    COMPOSITE = "COMPOSITE"
    FULL_OBJECT = "FULL_OBJECT"


DEFAULT_ALGORITHM: Final = ChecksumAlgorithm.CRC64NVME
"""The algorithm when the client names none, as in S3."""

_DIGEST_BYTES: Final[Mapping[ChecksumAlgorithm, int]] = {
    ChecksumAlgorithm.CRC32: 4,
    ChecksumAlgorithm.CRC32C: 4,
    ChecksumAlgorithm.CRC64NVME: 8,
    ChecksumAlgorithm.SHA1: 20,
    ChecksumAlgorithm.SHA256: 32,
    ChecksumAlgorithm.SHA512: 64,
    ChecksumAlgorithm.MD5: 16,
    ChecksumAlgorithm.XXHASH64: 8,
    ChecksumAlgorithm.XXHASH3: 8,
    ChecksumAlgorithm.XXHASH128: 16,
}

_CRC_OF_TWO: Final[Mapping[ChecksumAlgorithm, Callable[[int, int, int], int]]] = {
    ChecksumAlgorithm.CRC32: crt.combine_crc32,
    ChecksumAlgorithm.CRC32C: crt.combine_crc32c,
    ChecksumAlgorithm.CRC64NVME: crt.combine_crc64nvme,
}

_TYPES: Final[Mapping[ChecksumAlgorithm, tuple[ChecksumType, ...]]] = {
    **dict.fromkeys(ChecksumAlgorithm, (ChecksumType.COMPOSITE,)),
    ChecksumAlgorithm.CRC32: (ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
    ChecksumAlgorithm.CRC32C: (ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
    ChecksumAlgorithm.CRC64NVME: (ChecksumType.FULL_OBJECT,),
}
"""The types that each algorithm allows on a multipart object; the first is its default."""

_PART_COUNT: Final = re.compile("[1-9][0-9]{0,4}")


class Hasher(Protocol):
    """An incremental checksum, with the interface of hashlib."""

    def update(self, data: Buffer, /) -> object:
        """Add bytes; `data` is not retained."""
        ...

    def digest(self) -> bytes:
        """The digest of all bytes so far, big-endian. More may follow."""
        ...


class _RunningCrc:
    """A CRC as a hasher."""

    __slots__ = ("_size", "_step", "_value")

    def __init__(self, step: Callable[[Buffer, int], int], size: int) -> None:
        self._step = step
        self._size = size
        self._value = 0

    def update(self, data: Buffer, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


class _RunningXxhash:
    """An XXHash as a hasher."""

    __slots__ = ("_state",)

    def __init__(self, state: crt.XXHash) -> None:
        self._state = state

    def update(self, data: Buffer, /) -> None:
        self._state.update(bytes(data))  # it accepts only `bytes`, despite its signature

    def digest(self) -> bytes:
        return bytes(self._state.finalize())  # more data may follow: `finalize` leaves the state usable


_NEW_HASHER: Final[Mapping[ChecksumAlgorithm, Callable[[], Hasher]]] = {
    ChecksumAlgorithm.CRC64NVME: lambda: _RunningCrc(crt.crc64nvme, 8),
    ChecksumAlgorithm.CRC32C: lambda: _RunningCrc(crt.crc32c, 4),
    ChecksumAlgorithm.CRC32: lambda: _RunningCrc(zlib.crc32, 4),
    ChecksumAlgorithm.SHA1: lambda: hashlib.sha1(usedforsecurity=False),
    ChecksumAlgorithm.SHA256: hashlib.sha256,
    ChecksumAlgorithm.SHA512: hashlib.sha512,
    ChecksumAlgorithm.MD5: lambda: hashlib.md5(usedforsecurity=False),
    ChecksumAlgorithm.XXHASH64: lambda: _RunningXxhash(crt.XXHash.new_xxhash64()),
    ChecksumAlgorithm.XXHASH3: lambda: _RunningXxhash(crt.XXHash.new_xxhash3_64()),
    ChecksumAlgorithm.XXHASH128: lambda: _RunningXxhash(crt.XXHash.new_xxhash3_128()),
}


def new_hasher(algorithm: ChecksumAlgorithm) -> Hasher:
    """A new hasher."""
    return _NEW_HASHER[algorithm]()


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum of one object or part."""

    algorithm: ChecksumAlgorithm
    digest: bytes
    type: ChecksumType = ChecksumType.FULL_OBJECT
    parts: int | None = None
    """The number of parts of a COMPOSITE checksum; None also when a client omitted it."""

    @property
    def text(self) -> str:
        """The wire format: base64, followed by `-n` for a composite of n parts."""
        encoded = base64.b64encode(self.digest).decode("ascii")
        return encoded if self.parts is None else f"{encoded}-{self.parts}"

    def check(self, actual: Checksum) -> None:
        """Raise IntegrityMismatch unless the calculated checksum `actual` equals this claimed one.

        A claim without a number of parts matches any composite: clients may omit the number.
        """
        same_parts = self.parts is None or self.parts == actual.parts
        if (
            self.algorithm is not actual.algorithm
            or not same_parts
            or not hmac.compare_digest(self.digest, actual.digest)
        ):
            raise IntegrityMismatch(
                f"checksum mismatch. algorithm={self.algorithm} claimed={self.text} calculated={actual.text}",
                digest=actual.algorithm,
            )


def parse_checksum(algorithm: ChecksumAlgorithm, text: str) -> Checksum:
    """Parse a claimed checksum: base64 of a digest, with or without `-n`.

    Raises IntegrityMismatch for a value that is no digest of this algorithm, since no bytes could match it.
    """
    encoded, dash, parts = text.partition("-")
    try:
        digest = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as error:  # binascii.Error, or a non-ASCII character
        raise IntegrityMismatch(f"checksum is not base64. algorithm={algorithm} value={text[:100]!r}") from error
    if len(digest) != algorithm.digest_size:
        raise IntegrityMismatch(
            f"invalid checksum length. algorithm={algorithm} bytes={len(digest)} expected={algorithm.digest_size}"
        )
    if not dash:
        return Checksum(algorithm, digest)
    if not _PART_COUNT.fullmatch(parts):
        raise IntegrityMismatch(f"checksum lacks a valid part count. algorithm={algorithm} value={text[:100]!r}")
    return Checksum(algorithm, digest, ChecksumType.COMPOSITE, int(parts))


def parse_algorithm(name: str) -> ChecksumAlgorithm:
    """Parse an algorithm's name in any case. Raises InvalidInput."""
    try:
        return ChecksumAlgorithm(name.upper())
    except ValueError:
        raise InvalidInput(
            f"unknown checksum algorithm. expected={','.join(ChecksumAlgorithm)} value={name[:100]!r}"
        ) from None


def parse_type(name: str) -> ChecksumType:
    """Parse a checksum type. Raises InvalidInput."""
    try:
        return ChecksumType(name.upper())
    except ValueError:
        raise InvalidInput(f"unknown checksum type. expected=COMPOSITE,FULL_OBJECT value={name[:100]!r}") from None


def default_type(algorithm: ChecksumAlgorithm) -> ChecksumType:
    """The type of a multipart upload's checksum when the client names only the algorithm."""
    return _TYPES[algorithm][0]


def resolve_type(algorithm: ChecksumAlgorithm, requested: ChecksumType | None) -> ChecksumType:
    """The type for a multipart upload. Raises InvalidInput if the algorithm does not support the requested one."""
    if requested is None:
        return default_type(algorithm)
    if requested not in _TYPES[algorithm]:
        raise InvalidInput(
            f"unsupported checksum type for the algorithm. type={requested} algorithm={algorithm.lower()}"
        )
    return requested


@dataclass(frozen=True, slots=True)
class PartDigest:
    """The digest and size of one part."""

    digest: bytes
    size: int


def composite_checksum(algorithm: ChecksumAlgorithm, digests: Iterable[bytes]) -> Checksum:
    """The checksum of the parts' digests, in order of parts."""
    hasher = new_hasher(algorithm)
    count = 0
    for digest in digests:
        hasher.update(digest)
        count += 1
    return Checksum(algorithm, hasher.digest(), ChecksumType.COMPOSITE, count)


def full_object_checksum(algorithm: ChecksumAlgorithm, parts: Iterable[PartDigest]) -> Checksum:
    """The checksum of all bytes, from digests and sizes of the parts. A fraction of a microsecond per part.

    Raises InvalidInput for algorithms whose digests do not combine.
    """
    combine = _CRC_OF_TWO.get(algorithm)
    if combine is None:
        raise InvalidInput(f"part checksums do not combine. algorithm={algorithm}")
    crc = 0  # the CRC of no bytes
    for part in parts:
        crc = combine(crc, int.from_bytes(part.digest, "big"), part.size)
    return Checksum(algorithm, crc.to_bytes(algorithm.digest_size, "big"))


def multipart_checksum(
    algorithm: ChecksumAlgorithm, checksum_type: ChecksumType, parts: Iterable[PartDigest]
) -> Checksum:
    """The checksum of a completed multipart object, of the type declared at the start of the upload."""
    if checksum_type is ChecksumType.FULL_OBJECT:
        return full_object_checksum(algorithm, parts)
    return composite_checksum(algorithm, (part.digest for part in parts))
