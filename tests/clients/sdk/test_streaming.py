"""Hand-built streaming bodies as the AWS SDK for Java v2 sends them, and tampered ones.

A refused request stores nothing. Each test changes one part of a valid request.
"""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.clients.boto import Keys, all_keys, body_of, root_keys
from tests.clients.plain_http import Answer, fetch
from tests.clients.signing import (
    SIGNED,
    SIGNED_TRAILER,
    UNSIGNED_TRAILER,
    Signer,
    StreamingBody,
    StreamingPut,
    crc32_text,
    streaming_put,
)
from tests.fixtures.server import RunningServer

pytestmark = pytest.mark.integration

BODY = bytes(range(256)) * 700
"""175 KiB: three chunks of 64 KiB, larger than inline bodies."""

CRC32 = {"x-amz-checksum-crc32": crc32_text(BODY)}
KINDS = [SIGNED, SIGNED_TRAILER, UNSIGNED_TRAILER]


@pytest.fixture
def url(lakebed_server: RunningServer, bucket: str) -> str:
    return f"{lakebed_server.endpoint}/{bucket}/k"


@pytest.fixture
def signer(lakebed_server: RunningServer) -> Signer:
    return Signer(root_keys(lakebed_server))


def make(signer: Signer, url: str, kind: str, body: bytes = BODY, **options: Any) -> StreamingPut:
    """A streaming put as the SDK sends it: with a trailer if the kind has one."""
    if kind != SIGNED:
        options.setdefault("trailer", {"x-amz-checksum-crc32": crc32_text(body)})
    return streaming_put(signer, url, body, kind, **options)


def send(put: StreamingPut, body: StreamingBody | bytes | None = None, **headers: str) -> Answer:
    """Send the request, optionally with another body."""
    body = put.body if body is None else body
    encoded = body.encode() if isinstance(body, StreamingBody) else body
    return fetch("PUT", put.url, headers={**put.headers, **headers}, body=encoded)


# -- valid ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, len(BODY)])
def test_body_in_chunks_is_stored(signer: Signer, url: str, s3: Any, bucket: str, kind: str, size: int) -> None:
    assert send(make(signer, url, kind, BODY[:size])).status == 200
    assert body_of(s3, bucket, "k") == BODY[:size]
    head = s3.head_object(Bucket=bucket, Key="k")
    assert "ContentEncoding" not in head
    assert head["ETag"] == f'"{hashlib.md5(BODY[:size]).hexdigest()}"'


@pytest.mark.parametrize("kind", [SIGNED_TRAILER, UNSIGNED_TRAILER])
def test_trailing_checksum_is_stored(signer: Signer, url: str, s3: Any, bucket: str, kind: str) -> None:
    answer = send(make(signer, url, kind))
    assert answer.headers["x-amz-checksum-crc32"] == crc32_text(BODY)
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["ChecksumCRC32"] == crc32_text(BODY)
    sha = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    assert send(make(signer, url, kind, trailer={"x-amz-checksum-sha256": sha})).status == 200
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["ChecksumSHA256"] == sha


def test_other_content_codings_are_stored(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    put = make(signer, url, SIGNED_TRAILER, headers={"content-encoding": "aws-chunked,gzip"})
    assert send(put).status == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ContentEncoding"] == "gzip"


@pytest.mark.parametrize("kind", KINDS)
def test_aws_chunks_may_be_sent_with_chunked_transfer_encoding(
    signer: Signer, url: str, s3: Any, bucket: str, kind: str
) -> None:
    """Without a Content-Length; HTTP chunk boundaries are independent of aws-chunked ones."""
    put = make(signer, url, kind)
    encoded = put.body.encode()
    pieces = [encoded[start : start + 10_007] for start in range(0, len(encoded), 10_007)]
    wrapped = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in [*pieces, b""])
    assert send(put, wrapped, **{"Transfer-Encoding": "chunked"}).status == 200
    assert body_of(s3, bucket, "k") == BODY


@pytest.mark.parametrize("kind", KINDS)
def test_part_may_be_uploaded_in_chunks(signer: Signer, url: str, s3: Any, bucket: str, kind: str) -> None:
    # For a full-object checksum, the server calculates the missing checksums of parts.
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")[
        "UploadId"
    ]
    answer = send(make(signer, f"{url}?partNumber=1&uploadId={upload}", kind))
    assert answer.status == 200
    assert answer.headers["x-amz-checksum-crc32"] == crc32_text(BODY)
    part = {"PartNumber": 1, "ETag": answer.headers["etag"], "ChecksumCRC32": crc32_text(BODY)}
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [part]})
    assert body_of(s3, bucket, "k") == BODY


# -- tampered with ------------------------------------------------------------------------------------------------


Change = Callable[[StreamingBody], StreamingBody]

MISMATCH = (403, "SignatureDoesNotMatch")
BAD_TRAILER = (400, "MalformedTrailerError")


def flip_payload(number: int) -> Change:
    """Flip one bit of a chunk's payload."""

    def change(body: StreamingBody) -> StreamingBody:
        frame = body.frames[number]
        return body.with_frame(number, replace(frame, payload=frame.payload[:-1] + bytes([frame.payload[-1] ^ 1])))

    return change


def sign_chunk(number: int, signature: str | None) -> Change:
    return lambda body: body.with_frame(number, replace(body.frames[number], signature=signature))


def keep_chunks(*numbers: int) -> Change:
    """Send these chunks, in this order."""
    return lambda body: replace(body, frames=[body.frames[number] for number in numbers])


CHUNK_CHANGES: dict[str, tuple[Change, tuple[int, str]]] = {
    "payload of the first chunk": (flip_payload(0), MISMATCH),
    "payload of the last full chunk": (flip_payload(2), MISMATCH),
    "signature of a chunk": (sign_chunk(1, "0" * 64), MISMATCH),
    "signature of the final chunk": (sign_chunk(-1, "0" * 64), MISMATCH),
    "order of chunks": (keep_chunks(1, 0, 2, 3), MISMATCH),
    "a chunk that was dropped": (keep_chunks(0, 2, 3), MISMATCH),
    "a chunk without a signature": (sign_chunk(1, None), (400, "IncompleteBody")),
    "an early end": (keep_chunks(0, 3), (400, "IncompleteBody")),
}


@pytest.mark.parametrize("kind", [SIGNED, SIGNED_TRAILER])
@pytest.mark.parametrize("change", CHUNK_CHANGES)
def test_modified_chunk_is_refused_and_stores_nothing(
    signer: Signer, url: str, s3: Any, bucket: str, kind: str, change: str
) -> None:
    alter, refusal = CHUNK_CHANGES[change]
    put = make(signer, url, kind)
    answer = send(put, alter(put.body))
    assert (answer.status, answer.code) == refusal
    assert all_keys(s3, bucket) == []


OTHER_CRC = {"x-amz-checksum-crc32": crc32_text(b"another body")}


def trail(trailer: Mapping[str, str]) -> Change:
    return lambda body: replace(body, trailer=trailer)


def sign_trailer(signature: str | None) -> Change:
    return lambda body: replace(body, trailer_signature=signature)


TRAILER_CHANGES: dict[str, tuple[Change, tuple[int, str]]] = {
    "value": (trail(OTHER_CRC), MISMATCH),
    "signature": (sign_trailer("0" * 64), MISMATCH),
    "no signature": (sign_trailer(None), (400, "IncompleteBody")),
    "no checksum": (trail({}), BAD_TRAILER),
    "another name": (trail({"x-amz-checksum-sha1": "AAAA"}), BAD_TRAILER),
    "one more": (trail({**CRC32, "x-amz-meta-a": "1"}), BAD_TRAILER),
}


@pytest.mark.parametrize("change", TRAILER_CHANGES)
def test_modified_trailer_is_refused_and_stores_nothing(
    signer: Signer, url: str, s3: Any, bucket: str, change: str
) -> None:
    alter, refusal = TRAILER_CHANGES[change]
    put = make(signer, url, SIGNED_TRAILER)
    answer = send(put, alter(put.body))
    assert (answer.status, answer.code) == refusal
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", [SIGNED_TRAILER, UNSIGNED_TRAILER])
def test_trailer_with_a_wrong_checksum_is_refused(signer: Signer, url: str, s3: Any, bucket: str, kind: str) -> None:
    """The trailer signature is valid; only the checksum is wrong."""
    answer = send(make(signer, url, kind, trailer=OTHER_CRC))
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert all_keys(s3, bucket) == []


def test_checksum_of_an_unsigned_body_is_verified(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    put = make(signer, url, UNSIGNED_TRAILER)
    answer = send(put, flip_payload(1)(put.body))
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("stated", "code"), [(len(BODY) + 1, "IncompleteBody"), (len(BODY) - 1, "IncompleteBody")])
def test_wrong_decoded_length_is_refused(
    signer: Signer, url: str, s3: Any, bucket: str, kind: str, stated: int, code: str
) -> None:
    answer = send(make(signer, url, kind, decoded_length=stated))
    assert (answer.status, answer.code) == (400, code)
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", KINDS)
def test_decoded_length_is_required(signer: Signer, url: str, s3: Any, bucket: str, kind: str) -> None:
    headers = signer.headers("PUT", url, kind, {"content-encoding": "aws-chunked"})
    answer = fetch("PUT", url, headers=headers, body=make(signer, url, kind).body.encode())
    assert (answer.status, answer.code) == (411, "MissingContentLength")
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "garbage", [b"zz\r\n", b"-5\r\n", b"\r\n\r\n", b"A" * 10_000], ids=["hex", "sign", "empty", "long"]
)
def test_broken_framing_is_refused(signer: Signer, url: str, s3: Any, bucket: str, kind: str, garbage: bytes) -> None:
    put = make(signer, url, kind)
    answer = send(put, put.body.frames[0].encode(is_last=False) + garbage)
    assert answer.status == 400
    assert answer.code in ("InvalidChunkSizeError", "IncompleteBody")
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_after_the_end_are_refused(signer: Signer, url: str, s3: Any, bucket: str, kind: str) -> None:
    put = make(signer, url, kind)
    answer = send(put, put.body.encode() + b"more")
    assert answer.status == 400
    assert all_keys(s3, bucket) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_broken_connection_stores_nothing(
    lakebed_server: RunningServer, signer: Signer, url: str, s3: Any, bucket: str, kind: str, share: float
) -> None:
    put = make(signer, url, kind)
    encoded = put.body.encode()
    lines = [f"PUT {urlsplit(url).path} HTTP/1.1", f"Content-Length: {len(encoded)}"]
    lines += [f"{name}: {value}" for name, value in put.headers.items()]
    with socket.create_connection(("127.0.0.1", lakebed_server.port), timeout=30) as connection:
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + encoded[: int(len(encoded) * share)])
        connection.shutdown(socket.SHUT_WR)
        # The server sends its response before it releases the request.
        while connection.recv(65_536):
            pass
    assert all_keys(s3, bucket) == []


def test_seed_signature_of_another_key_is_refused(
    lakebed_server: RunningServer, url: str, s3: Any, bucket: str
) -> None:
    stranger = Signer(Keys(lakebed_server.access_key, "wrong"))
    answer = send(make(stranger, url, SIGNED_TRAILER))
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
    assert all_keys(s3, bucket) == []


def test_old_object_survives_a_tampered_replacement(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"old")
    put = make(signer, url, SIGNED_TRAILER)
    assert send(put, flip_payload(2)(put.body)).status == 403
    assert body_of(s3, bucket, "k") == b"old"


def test_unsupported_streaming_kind_is_refused(signer: Signer, url: str, s3: Any, bucket: str) -> None:
    headers = signer.headers(
        "PUT", url, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", {"x-amz-decoded-content-length": "0"}
    )
    answer = fetch("PUT", url, headers=headers)
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert all_keys(s3, bucket) == []
