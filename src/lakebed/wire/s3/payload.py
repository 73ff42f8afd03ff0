"""Request bodies: uploads as decoded streams with their expected digests, and documents as verified bytes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from lakebed.core.checksums import (
    DEFAULT_ALGORITHM,
    Checksum,
    ChecksumAlgorithm,
    parse_algorithm,
    parse_checksum,
)
from lakebed.core.errors import IntegrityMismatch, InvalidInput
from lakebed.core.json.parsing import parse_body
from lakebed.objects.blobs.digests import Digests, ExpectedDigests
from lakebed.wire.aws.authentication import Authenticated
from lakebed.wire.aws.errors import AwsFault
from lakebed.wire.aws.numbers import whole_number
from lakebed.wire.http.message import Request

from .chunked import MIN_CHUNK_BYTES, AwsChunkedDecoder, MalformedTrailer
from .request import S3Request

T = TypeVar("T")

LIST_BYTES: Final = 8 * 1024 * 1024
"""Largest list of objects or parts: more than 1,000 keys or 10,000 parts need."""

SETTING_BYTES: Final = 2 * 1024 * 1024
"""Largest document of any other kind: more than 1,000 lifecycle rules need."""

_THREAD_BYTES: Final = 64 * 1024
"""Pieces of signed bodies of at least this size are hashed in a thread."""

_CHECKSUM_OPTIONS: Final = frozenset({"x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type"})
CHECKSUM_HEADERS: Final = {f"x-amz-checksum-{algorithm.lower()}": algorithm for algorithm in ChecksumAlgorithm}


class PlainPayload:
    """A body without framing."""

    __slots__ = ("_body", "length")

    def __init__(self, request: Request, length: int) -> None:
        self._body = request.body
        self.length: int | None = length

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes."""
        return await self._body.next_chunk()


class ChunkedPayload:
    """An aws-chunked body."""

    __slots__ = ("_body", "_decoder", "_signed", "length")

    def __init__(self, request: Request, decoder: AwsChunkedDecoder, length: int, *, signed: bool) -> None:
        self._body = request.body
        self._decoder = decoder
        self._signed = signed
        self.length: int | None = length

    async def next_chunk(self) -> bytes | memoryview | None:
        """The next bytes of the object. Raises the decoder's errors."""
        while True:
            raw = await self._body.next_chunk()
            if raw is None:
                self._decoder.finish()
                return None
            view = memoryview(raw)
            if self._signed and len(view) >= _THREAD_BYTES:
                pieces = await asyncio.to_thread(self._decoder.feed, view)
            else:
                pieces = self._decoder.feed(view)
            if len(pieces) == 1:
                return pieces[0]
            if pieces:
                return b"".join(pieces)


def open_payload(s3_request: S3Request) -> tuple[PlainPayload | ChunkedPayload, ExpectedDigests]:
    """The body of an upload, and the digests that the client sent. Raises AwsFault, InvalidInput, IntegrityMismatch."""
    request, headers = s3_request.http, s3_request.headers
    claim = s3_request.authenticated.payload
    md5 = parse_content_md5(headers.get("content-md5"))
    algorithm, checksum = declared_checksum(request)
    if claim.streaming is None:
        if request.body.length is None or "content-length" not in headers:
            raise AwsFault(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
        if "x-amz-trailer" in headers:
            raise AwsFault(400, "MalformedTrailerError", "A trailer requires a streaming body.")
        expected = ExpectedDigests(
            md5=md5, sha256=claim.sha256, algorithm=algorithm or DEFAULT_ALGORITHM, checksum=checksum
        )
        return PlainPayload(request, request.body.length), expected
    length = _decoded_length(request)
    trailers = [name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()]
    decoder = AwsChunkedDecoder(
        claim.streaming,
        length,
        signer=claim.signer,
        seed_signature=claim.seed_signature,
        trailers=trailers,
        min_chunk_bytes=MIN_CHUNK_BYTES,
    )
    trailing = _trailing_algorithm(trailers)
    if trailing is not None:
        if checksum is not None:
            raise _multiple_checksums()
        if algorithm is not None and algorithm != trailing:
            raise AwsFault(400, "InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.")
        name = f"x-amz-checksum-{trailing.lower()}"

        def read_trailer() -> Checksum:
            value = decoder.trailers.get(name)
            if value is None:
                raise MalformedTrailer(f"declared trailer checksum is missing. name={name}")
            try:
                return parse_checksum(trailing, value)
            except IntegrityMismatch as error:
                raise AwsFault(400, "InvalidRequest", f"Value for {name} trailing header is invalid.") from error

        expected = ExpectedDigests(md5=md5, algorithm=trailing, trailing_checksum=read_trailer)
    else:
        expected = ExpectedDigests(md5=md5, algorithm=algorithm or DEFAULT_ALGORITHM, checksum=checksum)
    return ChunkedPayload(request, decoder, length, signed=claim.streaming.is_signed), expected


async def read_parsed(request: S3Request, parse: Callable[[bytes], T], limit: int = SETTING_BYTES) -> T:
    """Read, verify and parse a document; large ones off the event loop. Call it after authorization.

    Raises the errors of `parse` and `read_document`.
    """
    return await parse_body(parse, await read_document(request.http, request.authenticated, limit))


async def read_document(request: Request, authenticated: Authenticated, limit: int = SETTING_BYTES) -> bytes:
    """Read a body and verify it against the digests in the headers. Raises AwsFault, TooLarge, IntegrityMismatch."""
    if authenticated.body is not None:
        return authenticated.body
    reject_streaming(authenticated)
    if request.body.length is None and not request.body.chunked:
        return b""
    body = await request.body.read(limit)
    md5 = parse_content_md5(request.headers.get("content-md5"))
    algorithm, checksum = declared_checksum(request)
    expected = ExpectedDigests(
        md5=md5, sha256=authenticated.payload.sha256, algorithm=algorithm or DEFAULT_ALGORITHM, checksum=checksum
    )
    await parse_body(partial(_verify, expected), body)
    return body


def _verify(expected: ExpectedDigests, body: bytes) -> None:
    digests = Digests(expected)
    digests.update(body)
    digests.verify(expected)


def reject_streaming(authenticated: Authenticated) -> None:
    """Reject aws-chunked framing for documents. Raises AwsFault."""
    if authenticated.payload.streaming is not None:
        raise AwsFault(400, "InvalidRequest", "The value of x-amz-content-sha256 header is invalid.")


def parse_content_md5(text: str | None) -> bytes | None:
    """The digest in `Content-MD5`. Raises AwsFault if it is malformed."""
    if text is None:
        return None
    try:
        digest = base64.b64decode(text.strip(), validate=True)
    except ValueError:  # not base64, or not even ASCII
        digest = b""
    if len(digest) != 16:
        raise AwsFault(400, "InvalidDigest", "The Content-Md5 you specified is not valid.", **{"Content-MD5": text})
    return digest


def declared_checksum(request: Request) -> tuple[ChecksumAlgorithm | None, Checksum | None]:
    """The checksum algorithm in the headers, and its value if present. Raises AwsFault."""
    headers = request.headers
    found: Checksum | None = None
    claims = [(algorithm, headers[name]) for name, algorithm in CHECKSUM_HEADERS.items() if name in headers]
    if len(claims) > 1:
        raise _multiple_checksums()
    if not claims and any(name.startswith("x-amz-checksum-") and name not in _CHECKSUM_OPTIONS for name in headers):
        raise AwsFault(400, "InvalidRequest", "The algorithm type you specified in x-amz-checksum- header is invalid.")
    for algorithm, value in claims:
        found = _parse_header_checksum(algorithm, value)
    named = headers.get("x-amz-sdk-checksum-algorithm")
    if named is None:
        return (None if found is None else found.algorithm), found
    try:
        algorithm = parse_algorithm(named)
    except InvalidInput as error:
        raise AwsFault(400, "InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.") from error
    if found is not None and found.algorithm != algorithm:
        raise AwsFault(400, "InvalidRequest", "Value for x-amz-sdk-checksum-algorithm header is invalid.")
    return algorithm, found


def _multiple_checksums() -> AwsFault:
    return AwsFault(
        400,
        "InvalidRequest",
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.",
    )


def _parse_header_checksum(algorithm: ChecksumAlgorithm, value: str) -> Checksum:
    try:
        return parse_checksum(algorithm, value)
    except IntegrityMismatch as error:
        raise AwsFault(
            400, "InvalidRequest", f"Value for x-amz-checksum-{algorithm.lower()} header is invalid."
        ) from error


def _trailing_algorithm(trailers: list[str]) -> ChecksumAlgorithm | None:
    found = [CHECKSUM_HEADERS[name] for name in trailers if name in CHECKSUM_HEADERS]
    if len(found) > 1:
        raise AwsFault(400, "InvalidRequest", "Expecting a single x-amz-checksum- trailer.")
    return found[0] if found else None


def _decoded_length(request: Request) -> int:
    text = request.headers.get("x-amz-decoded-content-length")
    if text is None:
        raise AwsFault(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    length = whole_number(text)
    if length is None:
        # The conformance suite expects a malformed length to be treated as missing.
        raise AwsFault(411, "MissingContentLength", "You must provide the Content-Length HTTP header.")
    return length
