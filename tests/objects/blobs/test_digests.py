from __future__ import annotations

import zlib

import pytest

from lakebed.core.checksums import Checksum, ChecksumAlgorithm
from lakebed.core.errors import IntegrityMismatch
from lakebed.objects.blobs.digests import Digests, ExpectedDigests

A = ChecksumAlgorithm
BODY = b"some bytes"
CRC32 = Checksum(A.CRC32, zlib.crc32(BODY).to_bytes(4, "big"))


def digest(expected: ExpectedDigests) -> tuple[Checksum, Checksum | None]:
    digests = Digests(expected)
    digests.update(BODY[:4])
    digests.update(BODY[4:])
    _, checksum = digests.verify(expected)
    return checksum, digests.declared


def test_declared_checksum_of_another_algorithm_is_verified() -> None:
    kept, declared = digest(ExpectedDigests(algorithm=A.CRC64NVME, checksum=CRC32, declared_algorithm=A.CRC32))
    assert kept.algorithm is A.CRC64NVME
    assert declared == CRC32
    with pytest.raises(IntegrityMismatch) as wrong:
        digest(ExpectedDigests(algorithm=A.CRC64NVME, checksum=Checksum(A.CRC32, bytes(4)), declared_algorithm=A.CRC32))
    assert wrong.value.digest == "CRC32"


def test_declared_checksum_of_the_stored_algorithm_is_returned_once() -> None:
    assert digest(ExpectedDigests(algorithm=A.CRC32, checksum=CRC32)) == (CRC32, None)


@pytest.mark.parametrize(
    ("expected", "digest_name"),
    [(ExpectedDigests(md5=bytes(16)), "md5"), (ExpectedDigests(sha256="0" * 64), "sha256-payload")],
)
def test_mismatch_contains_claimed_and_calculated_digest(expected: ExpectedDigests, digest_name: str) -> None:
    with pytest.raises(IntegrityMismatch) as wrong:
        digest(expected)
    assert wrong.value.digest == digest_name
    assert wrong.value.claimed is not None
    assert set(wrong.value.claimed) == {"0"}
    assert wrong.value.calculated != wrong.value.claimed
