"""Digests of a body, and their comparison with the digests that the sender declared."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakebed.core.checksums import DEFAULT_ALGORITHM, Checksum, ChecksumAlgorithm, new_hasher
from lakebed.core.errors import IntegrityMismatch

from .md5 import PlainMd5, RunningMd5

Chunk: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ExpectedDigests:
    """The digests that the sender declared, and the checksum to calculate."""

    md5: bytes | None = None
    sha256: str | None = None
    """Hexadecimal, from a signed payload."""
    algorithm: ChecksumAlgorithm = DEFAULT_ALGORITHM
    """The checksum to calculate and store, whether or not the sender declared its value."""
    checksum: Checksum | None = None
    """The declared value, if it was sent before the body."""
    trailing_checksum: Callable[[], Checksum] | None = None
    """Returns the declared value from the trailer; raises if it is missing."""
    declared_algorithm: ChecksumAlgorithm | None = None
    """The algorithm of the declared value, if it differs from the stored one."""


class Digests:
    """The running hashes of one body.

    `update` adds bytes. Alternatively, `begin` starts their MD5 without blocking; then call `add`, then `wait`.
    """

    __slots__ = ("_checksum", "_declared", "_md5", "_sha256", "declared", "size")

    def __init__(self, expected: ExpectedDigests, md5: RunningMd5 | None = None) -> None:
        self._md5 = PlainMd5() if md5 is None else md5
        self._sha256 = hashlib.sha256() if expected.sha256 is not None else None
        self._checksum = new_hasher(expected.algorithm)
        self._declared = None if expected.declared_algorithm is None else new_hasher(expected.declared_algorithm)
        self.size = 0
        self.declared: Checksum | None = None
        """After `verify`: the checksum by the sender's algorithm, if another one is stored."""

    def update(self, data: Chunk) -> None:
        """Add bytes."""
        number = self.begin((data,))
        self.add(data)
        self.wait(number)

    def begin(self, chunks: Sequence[Chunk]) -> int:
        """Start the MD5 of these chunks. They must not change until `wait` returns for the returned number."""
        return self._md5.begin(chunks)

    def add(self, data: Chunk) -> None:
        """Update all other digests. May run in a thread."""
        self.size += len(data)
        if self._sha256 is not None:
            self._sha256.update(data)
        self._checksum.update(data)
        if self._declared is not None:
            self._declared.update(data)

    def wait(self, number: int) -> None:
        """Block until the MD5 includes everything up to this number."""
        self._md5.wait(number)

    def verify(self, expected: ExpectedDigests) -> tuple[bytes, Checksum]:
        """The MD5 and the checksum. Raises IntegrityMismatch if they differ from the declared digests."""
        md5 = self._md5.digest()
        if self._sha256 is not None and not hmac.compare_digest(self._sha256.hexdigest(), expected.sha256 or ""):
            raise IntegrityMismatch(
                "payload SHA-256 does not match the signed value",
                digest="sha256-payload",
                claimed=expected.sha256,
                calculated=self._sha256.hexdigest(),
            )
        if expected.md5 is not None and expected.md5 != md5:
            raise IntegrityMismatch(
                "body does not match its Content-MD5",
                digest="md5",
                claimed=expected.md5.hex(),
                calculated=md5.hex(),
            )
        checksum = Checksum(expected.algorithm, self._checksum.digest())
        if self._declared is not None and expected.declared_algorithm is not None:
            self.declared = Checksum(expected.declared_algorithm, self._declared.digest())
        claim = expected.checksum
        if claim is None and expected.trailing_checksum is not None:
            claim = expected.trailing_checksum()
        if claim is not None:
            claim.check(self.declared or checksum)
        return md5, checksum
