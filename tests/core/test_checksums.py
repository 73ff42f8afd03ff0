from __future__ import annotations

import base64
import hashlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core import checksums
from lakebed.core.checksums import (
    Checksum,
    ChecksumAlgorithm,
    ChecksumType,
    PartDigest,
    composite_checksum,
    default_type,
    full_object_checksum,
    multipart_checksum,
    new_hasher,
    parse_algorithm,
    parse_checksum,
    parse_type,
    resolve_type,
)
from lakebed.core.errors import IntegrityMismatch, InvalidInput

A = ChecksumAlgorithm
algorithms = st.sampled_from(list(A))
linear = st.sampled_from([a for a in A if a.is_linear])
pieces = st.lists(st.binary(max_size=300), max_size=8)


def digest(algorithm: ChecksumAlgorithm, body: bytes) -> bytes:
    hasher = new_hasher(algorithm)
    hasher.update(body)
    return hasher.digest()


# The check values of each algorithm's catalogue entry, over the digits 1 to 9.
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (A.CRC32, "cbf43926"),
        (A.CRC32C, "e3069283"),
        (A.CRC64NVME, "ae8b14860a799888"),
        (A.SHA1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        (A.SHA256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        (A.MD5, "25f9e794323b453885f5181f1b624d0b"),
    ],
)
def test_digest_matches_the_published_check_value(algorithm: ChecksumAlgorithm, expected: str) -> None:
    assert digest(algorithm, b"123456789").hex() == expected
    assert algorithm.digest_size == len(expected) // 2


# Of empty input, as published by the authors of the algorithms.
@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (A.XXHASH64, "ef46db3751d8e999"),
        (A.XXHASH3, "2d06800538d394c2"),
        (A.XXHASH128, "99aa06d3014798d86001c324468d497f"),
        (A.SHA512, hashlib.sha512(b"").hexdigest()),
    ],
)
def test_digest_of_empty_input_matches_the_published_one(algorithm: ChecksumAlgorithm, expected: str) -> None:
    assert digest(algorithm, b"").hex() == expected
    assert algorithm.digest_size == len(expected) // 2


@given(algorithms, st.binary(max_size=300), st.binary(max_size=300))
def test_digest_does_not_finalize_the_hasher(algorithm: ChecksumAlgorithm, first: bytes, second: bytes) -> None:
    hasher = new_hasher(algorithm)
    hasher.update(first)
    assert hasher.digest() == digest(algorithm, first)
    hasher.update(second)
    assert hasher.digest() == digest(algorithm, first + second)


@given(algorithms, pieces)
def test_incremental_digest_equals_that_of_the_whole(algorithm: ChecksumAlgorithm, body: list[bytes]) -> None:
    hasher = new_hasher(algorithm)
    for piece in body:
        hasher.update(memoryview(bytearray(piece)))
    assert hasher.digest() == digest(algorithm, b"".join(body))


@given(linear, pieces)
def test_combined_crcs_of_parts_are_the_crc_of_the_whole(algorithm: ChecksumAlgorithm, body: list[bytes]) -> None:
    parts = [PartDigest(digest(algorithm, piece), len(piece)) for piece in body]
    assert full_object_checksum(algorithm, parts) == Checksum(algorithm, digest(algorithm, b"".join(body)))


def test_crcs_combine_over_parts_larger_than_four_gibibytes() -> None:
    # The CRC of n zero bytes after a prefix, doubled from parts whose CRC is known by induction.
    size = 1 << 20
    part = PartDigest(zlib.crc32(bytes(size)).to_bytes(4, "big"), size)
    for _ in range(13):
        part = PartDigest(full_object_checksum(A.CRC32, [part, part]).digest, part.size * 2)
    assert part.size == 8 << 30
    by_megabyte = full_object_checksum(A.CRC32, [PartDigest(zlib.crc32(bytes(size)).to_bytes(4, "big"), size)] * 8192)
    assert by_megabyte.digest == part.digest


def test_sha_digests_of_parts_do_not_combine() -> None:
    with pytest.raises(InvalidInput, match="do not combine"):
        full_object_checksum(A.SHA256, [PartDigest(bytes(32), 1)])


@given(algorithms, st.lists(st.binary(max_size=50), min_size=1, max_size=20))
def test_composite_is_the_digest_of_digests_with_the_count(algorithm: ChecksumAlgorithm, body: list[bytes]) -> None:
    digests = [digest(algorithm, piece) for piece in body]
    made = composite_checksum(algorithm, digests)
    assert made.digest == digest(algorithm, b"".join(digests))
    assert made.text == base64.b64encode(made.digest).decode() + f"-{len(body)}"
    assert parse_checksum(algorithm, made.text) == made


def test_multipart_checksum_follows_the_type_of_the_upload() -> None:
    parts = [PartDigest(digest(A.CRC32, b"ab"), 2), PartDigest(digest(A.CRC32, b"c"), 1)]
    full = multipart_checksum(A.CRC32, ChecksumType.FULL_OBJECT, parts)
    composite = multipart_checksum(A.CRC32, ChecksumType.COMPOSITE, parts)
    assert full.text == base64.b64encode(zlib.crc32(b"abc").to_bytes(4, "big")).decode()
    assert composite.text.endswith("-2")


@given(algorithms, st.binary(max_size=100))
def test_checksum_text_round_trips(algorithm: ChecksumAlgorithm, body: bytes) -> None:
    made = Checksum(algorithm, digest(algorithm, body))
    assert parse_checksum(algorithm, made.text) == made


@given(algorithms, st.text(max_size=60))
def test_any_text_is_a_checksum_or_an_integrity_mismatch(algorithm: ChecksumAlgorithm, text: str) -> None:
    try:
        parsed = parse_checksum(algorithm, text)
    except IntegrityMismatch:
        return
    assert len(parsed.digest) == algorithm.digest_size


@pytest.mark.parametrize(
    "text", ["", "bad", "AAAA", "AAAAAA", "AAAAAA==x", " AAAAAA==", "AAAAAA==-0", "AAAAAA==-", "ÀAAAAA=="]
)
def test_undecodable_claim_is_an_integrity_mismatch(text: str) -> None:
    with pytest.raises(IntegrityMismatch):
        parse_checksum(A.CRC32, text)


def test_claim_matches_only_the_same_digest_and_number_of_parts() -> None:
    actual = composite_checksum(A.SHA256, [hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()])
    actual.check(actual)
    parse_checksum(A.SHA256, actual.text.removesuffix("-2")).check(actual)
    for wrong in (actual.text.replace("-2", "-3"), base64.b64encode(bytes(32)).decode()):
        with pytest.raises(IntegrityMismatch, match="checksum mismatch"):
            parse_checksum(A.SHA256, wrong).check(actual)
    with pytest.raises(IntegrityMismatch):
        Checksum(A.CRC32, bytes(4)).check(Checksum(A.CRC32C, bytes(4)))


@pytest.mark.parametrize(
    ("algorithm", "default", "refused"),
    [
        (A.CRC64NVME, ChecksumType.FULL_OBJECT, ChecksumType.COMPOSITE),
        (A.CRC32, ChecksumType.COMPOSITE, None),
        (A.CRC32C, ChecksumType.COMPOSITE, None),
        (A.SHA1, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.SHA256, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.SHA512, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.MD5, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.XXHASH64, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.XXHASH3, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
        (A.XXHASH128, ChecksumType.COMPOSITE, ChecksumType.FULL_OBJECT),
    ],
)
def test_multipart_checksum_types_by_algorithm(
    algorithm: ChecksumAlgorithm, default: ChecksumType, refused: ChecksumType | None
) -> None:
    assert resolve_type(algorithm, None) is default is default_type(algorithm)
    for requested in ChecksumType:
        if requested is refused:
            with pytest.raises(InvalidInput, match=f"algorithm={algorithm.lower()}"):
                resolve_type(algorithm, requested)
        else:
            assert resolve_type(algorithm, requested) is requested


def test_algorithm_names_are_case_insensitive_and_unknown_ones_rejected() -> None:
    assert parse_algorithm("crc64nvme") is A.CRC64NVME
    assert parse_type("FULL_OBJECT") is ChecksumType.FULL_OBJECT
    assert parse_algorithm("xxhash3") is A.XXHASH3
    with pytest.raises(InvalidInput, match="expected=CRC32,CRC32C"):
        parse_algorithm("CRC16")
    with pytest.raises(InvalidInput, match="COMPOSITE"):
        parse_type("HALF_OBJECT")


def test_public_names_exist() -> None:
    assert all(hasattr(checksums, name) for name in checksums.__all__)
