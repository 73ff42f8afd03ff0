from __future__ import annotations

import hashlib
import hmac
import io
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import Incomplete, InvalidInput, LakebedError, Unauthenticated
from lakebed.wire.aws.chunk_signing import ChunkSigner, StreamingKind
from lakebed.wire.s3 import chunked
from lakebed.wire.s3.chunked import (
    AwsChunkedDecoder,
    ChunkSignatureMismatch,
    ChunkTooSmall,
    MalformedChunk,
    MalformedTrailer,
)

TIMESTAMP = "20130524T000000Z"
SCOPE = "20130524/us-east-1/s3/aws4_request"
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
CRC = "x-amz-checksum-crc32"


def signing_key(secret: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for item in SCOPE.split("/"):
        key = hmac.digest(key, item.encode(), "sha256")
    return key


def signer(secret: str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY") -> ChunkSigner:
    key = signing_key(secret)
    return ChunkSigner(lambda text: hmac.digest(key, text.encode(), "sha256").hex(), TIMESTAMP, SCOPE)


def encode(kind: StreamingKind, chunks: Sequence[bytes], trailers: Iterable[tuple[str, str]] = ()) -> bytes:
    """The body that a client sends for this payload."""
    body, previous, sign = b"", SEED, signer()
    for chunk in [*(chunk for chunk in chunks if chunk), b""]:
        body += f"{len(chunk):x}".encode()
        if kind.is_signed:
            previous = sign.chunk_signature(previous, hashlib.sha256(chunk).hexdigest())
            body += f";chunk-signature={previous}".encode()
        body += b"\r\n" + chunk + (b"\r\n" if chunk else b"")
    if kind.has_trailer:
        canonical = "".join(f"{name}:{value}\n" for name, value in trailers)
        body += canonical.replace("\n", "\r\n").encode()
        if kind.is_signed:
            signature = sign.trailer_signature(previous, hashlib.sha256(canonical.encode()).hexdigest())
            body += f"x-amz-trailer-signature:{signature}\r\n".encode()
    return body + b"\r\n"


def decoder(kind: StreamingKind, length: int, trailers: Iterable[str] = ()) -> AwsChunkedDecoder:
    return AwsChunkedDecoder(
        kind, length, signer=signer() if kind.is_signed else None, seed_signature=SEED, trailers=trailers
    )


def decode(decoding: AwsChunkedDecoder, body: bytes, cuts: Iterable[int] = ()) -> bytes:
    edges = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    payload = b""
    for start, end in pairwise(edges):
        buffer = bytearray(body[start:end])
        payload += b"".join(decoding.feed(memoryview(buffer)))
        buffer[:] = bytes(len(buffer))  # the receive buffer is reused: the decoder must not keep views of it
    decoding.finish()
    return payload


kinds = st.sampled_from(StreamingKind)
trailer_kinds = st.sampled_from([kind for kind in StreamingKind if kind.has_trailer])
chunk_lists = st.lists(st.binary(min_size=1, max_size=400), max_size=5)
cut_lists = st.lists(st.integers(0, 5000), max_size=12)


@given(kinds, chunk_lists, cut_lists)
def test_body_split_anywhere_decodes_to_the_same_payload(
    kind: StreamingKind, chunks: list[bytes], cuts: list[int]
) -> None:
    trailers = [(CRC, "AAAAAA=="), ("x-amz-meta-b", "two words")] if kind.has_trailer else []
    decoding = decoder(kind, sum(map(len, chunks)), [name for name, _ in trailers])
    assert decode(decoding, encode(kind, chunks, trailers), cuts) == b"".join(chunks)
    assert decoding.is_done
    assert dict(decoding.trailers) == dict(trailers)


@given(kinds, chunk_lists, st.integers(0, 5000), st.binary(max_size=80), st.integers(0, 40), cut_lists)
def test_corrupted_body_raises_only_domain_errors(
    kind: StreamingKind, chunks: list[bytes], at: int, noise: bytes, cut: int, cuts: list[int]
) -> None:
    body = encode(kind, chunks, [(CRC, "AAAAAA==")])
    at %= len(body) + 1
    broken = body[:at] + noise + body[at + cut :]
    decoding = decoder(kind, sum(map(len, chunks)), [CRC] if kind.has_trailer else [])
    try:
        payload = decode(decoding, broken, cuts)
    except (Incomplete, InvalidInput, Unauthenticated):
        assert not decoding.is_done
        return
    assert len(payload) == sum(map(len, chunks))
    if kind.is_signed:
        assert payload == b"".join(chunks)


@given(st.sampled_from([StreamingKind.SIGNED, StreamingKind.SIGNED_TRAILER]), st.data())
def test_changed_bit_of_payload_or_trailer_fails_the_signature(kind: StreamingKind, data: st.DataObject) -> None:
    chunks = [b"first chunk", b"second"]
    body = bytearray(encode(kind, chunks, [(CRC, "AAAAAA==")]))
    starts = [body.index(chunk) for chunk in chunks] + ([body.index(b"AAAAAA")] if kind.has_trailer else [])
    at = data.draw(st.sampled_from(starts))
    body[at] ^= 1
    with pytest.raises(ChunkSignatureMismatch):
        decode(decoder(kind, 17, [CRC] if kind.has_trailer else []), bytes(body))


def test_published_signed_example_decodes() -> None:
    chunks = [b"a" * 65536, b"a" * 1024]
    signatures = (
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    )
    body = b"".join(
        b"%x;chunk-signature=%s\r\n%s\r\n" % (len(chunk), signature.encode(), chunk)
        for chunk, signature in zip([*chunks, b""], signatures, strict=True)
    )
    assert len(body) == 66824
    assert decode(decoder(StreamingKind.SIGNED, 66560), body) == b"a" * 66560


# The published body ends trailer lines with LF and an empty line; SDKs end them with CRLF; some omit the end.
@pytest.mark.parametrize(
    ("line_end", "end"), [(b"\n\r\n", b"\r\n\r\n"), (b"\r\n", b"\r\n\r\n"), (b"\r\n", b"\r\n"), (b"\n", b"\n")]
)
def test_published_signed_trailer_example_decodes(line_end: bytes, end: bytes) -> None:
    chunks = [b"a" * 65536, b"a" * 1024]
    signatures = (
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    )
    body = b"".join(
        b"%x;chunk-signature=%s\r\n%s\r\n" % (len(chunk), signature.encode(), chunk)
        for chunk, signature in zip(chunks, signatures, strict=True)
    )
    body += b"0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
    body += b"x-amz-checksum-crc32c:sOO8/Q==" + line_end
    body += b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435" + end
    decoding = AwsChunkedDecoder(
        StreamingKind.SIGNED_TRAILER,
        66560,
        signer=signer(),
        seed_signature="106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
        trailers=["X-Amz-Checksum-Crc32c"],
    )
    assert decode(decoding, body) == b"a" * 66560
    assert decoding.trailers == {"x-amz-checksum-crc32c": "sOO8/Q=="}


def test_body_written_by_botocore_decodes() -> None:
    payload = b"0123456789" * 300_000
    body = AwsChunkedWrapper(io.BytesIO(payload), checksum_cls=Crc32Checksum, checksum_name=CRC).read()
    decoding = decoder(StreamingKind.UNSIGNED_TRAILER, len(payload), [CRC])
    assert decode(decoding, body, range(0, len(body), 262_144)) == payload
    assert decoding.trailers == {CRC: b64encode(zlib.crc32(payload).to_bytes(4, "big")).decode()}


def test_unsigned_trailer_of_minio_clients_decodes() -> None:
    decoding = decoder(StreamingKind.UNSIGNED_TRAILER, 5, [CRC])
    assert decode(decoding, b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n") == b"hello"
    assert decoding.trailers == {CRC: "NhCmhg=="}


def test_payload_pieces_are_views_of_the_input() -> None:
    buffer = bytearray(b"5\r\nhello\r\n0\r\n\r\n")
    pieces = decoder(StreamingKind.UNSIGNED_TRAILER, 5).feed(memoryview(buffer))
    buffer[3:8] = b"HELLO"
    assert b"".join(pieces) == b"HELLO"


def test_every_truncation_is_incomplete() -> None:
    for kind in StreamingKind:
        names = [CRC] if kind.has_trailer else []
        body = encode(kind, [b"some", b"bytes"], [(CRC, "AAAAAA==")])
        for length in range(len(body) - 2):
            decoding = decoder(kind, 9, names)
            decoding.feed(memoryview(body)[:length])
            with pytest.raises(Incomplete):
                decoding.finish()
            assert not decoding.is_done


def test_fewer_bytes_than_declared_are_incomplete() -> None:
    with pytest.raises(Incomplete, match="missing_bytes=3"):
        decode(decoder(StreamingKind.SIGNED, 8), encode(StreamingKind.SIGNED, [b"bytes"]))


def test_more_bytes_than_declared_are_rejected_before_any_is_returned() -> None:
    decoding = decoder(StreamingKind.SIGNED, 4)
    with pytest.raises(MalformedChunk, match="size=5 left=4") as error:
        decoding.feed(memoryview(encode(StreamingKind.SIGNED, [b"bytes"])))
    assert error.value.argument == "x-amz-decoded-content-length"


def test_reordered_or_missing_chunks_fail_the_signature() -> None:
    body = encode(StreamingKind.SIGNED, [b"one", b"two", b"six"])
    first, second = body.index(b"3;"), body.index(b"3;", 1)
    third = body.index(b"3;", second + 1)
    last = body.index(b"0;", third)
    swapped = body[second:third] + body[first:second] + body[third:]
    without_last = body[:third] + body[last:]
    with pytest.raises(ChunkSignatureMismatch):
        decode(decoder(StreamingKind.SIGNED, 9), swapped)
    with pytest.raises(ChunkSignatureMismatch):
        decode(decoder(StreamingKind.SIGNED, 6), without_last)


def test_signature_by_another_key_fails() -> None:
    decoding = AwsChunkedDecoder(StreamingKind.SIGNED, 3, signer=signer("another"), seed_signature=SEED)
    with pytest.raises(ChunkSignatureMismatch):
        decode(decoding, encode(StreamingKind.SIGNED, [b"one"]))


def test_signed_kinds_require_a_signer() -> None:
    with pytest.raises(ValueError, match="signer"):
        AwsChunkedDecoder(StreamingKind.SIGNED, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"5;\nhello\r\n0\r\n\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"\r\n",
        b"-5\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"00000000000000005\r\nhello",
        b"5;name=\x00\r\n",
        b"5;" + b"x" * 9000 + b"\r\n",
        b"5" * 9000,
    ],
)
def test_malformed_framing_raises_malformed_chunk(body: bytes) -> None:
    with pytest.raises(MalformedChunk):
        decode(decoder(StreamingKind.UNSIGNED_TRAILER, 5), body)


def test_unsigned_chunk_extensions_are_ignored() -> None:
    body = b"5;name=value\r\nhello\r\n0;\r\n\r\n"
    assert decode(decoder(StreamingKind.UNSIGNED_TRAILER, 5), body) == b"hello"


@pytest.mark.parametrize("kind", [StreamingKind.SIGNED, StreamingKind.SIGNED_TRAILER])
def test_signed_kinds_reject_a_chunk_without_signature(kind: StreamingKind) -> None:
    with pytest.raises(MalformedChunk, match="header"):
        decode(decoder(kind, 5), b"5\r\nhello\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("trailer", "declared"),
    [
        (b"\r\n", [CRC]),
        (b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", []),
        (b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-other:1\r\n\r\n", [CRC]),
        (b"x-amz-other:1\r\n\r\n", [CRC]),
        (b"x-amz-checksum-crc32:AAAAAA==\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", [CRC, "x-amz-other"]),
        (b"x-amz-checksum-crc32\r\n\r\n", [CRC]),
        (b"x-amz-checksum-crc32:\xff\r\n\r\n", [CRC]),
        (b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n" + b"\r\n" * 5000, [CRC]),
    ],
)
def test_malformed_or_undeclared_trailer_is_rejected(trailer: bytes, declared: list[str]) -> None:
    with pytest.raises(MalformedTrailer):
        decode(decoder(StreamingKind.UNSIGNED_TRAILER, 0, declared), b"0\r\n" + trailer)


def test_signed_trailer_must_contain_the_declared_headers() -> None:
    body = encode(StreamingKind.SIGNED_TRAILER, [], [(CRC, "AAAAAA==")])
    with pytest.raises(MalformedTrailer, match="names=x-amz-other"):
        decode(decoder(StreamingKind.SIGNED_TRAILER, 0, [CRC, "x-amz-other"]), body)


def test_bytes_after_the_end_are_rejected() -> None:
    with pytest.raises(MalformedChunk, match="after the end"):
        decode(decoder(StreamingKind.SIGNED, 0), encode(StreamingKind.SIGNED, []) + b"more\r\n")


def test_empty_object_may_have_no_body() -> None:
    assert decode(decoder(StreamingKind.SIGNED, 0), b"") == b""
    for decoding in (decoder(StreamingKind.SIGNED, 1), decoder(StreamingKind.SIGNED_TRAILER, 0, [CRC])):
        with pytest.raises(Incomplete):
            decoding.finish()


def test_decoder_accepts_nothing_after_an_error() -> None:
    decoding = decoder(StreamingKind.SIGNED, 3)
    with pytest.raises(MalformedChunk):
        decoding.feed(memoryview(b"zz\r\n"))
    good = memoryview(encode(StreamingKind.SIGNED, [b"one"]))
    with pytest.raises(LakebedError):
        decoding.feed(good)
    with pytest.raises(Incomplete):
        decoding.finish()


def test_public_names_exist() -> None:
    assert all(hasattr(chunked, name) for name in chunked.__all__)


@pytest.mark.parametrize("kind", list(StreamingKind))
def test_only_the_last_chunk_may_be_below_the_minimum_size(kind: StreamingKind) -> None:
    def decode(*sizes: int) -> bytes:
        chunks = [bytes(size) for size in sizes]
        decoder = AwsChunkedDecoder(kind, sum(sizes), signer=signer(), seed_signature=SEED, min_chunk_bytes=8)
        pieces = decoder.feed(memoryview(encode(kind, chunks)))
        decoder.finish()
        return b"".join(pieces)

    assert decode(8, 9, 1) == bytes(18)
    assert decode(1) == bytes(1)
    with pytest.raises(ChunkTooSmall) as error:
        decode(8, 7, 8)
    assert (error.value.number, error.value.size) == (2, 7)
