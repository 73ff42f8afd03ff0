"""A SigV4 signer for requests of SDKs that are not installed, and for requests that no SDK sends.

It follows the protocol's description and shares no code with the server, so that each verifies the other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from tests.clients.boto import REGION, Keys

EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
SIGNED: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs for one user, service and time."""

    keys: Keys
    service: str = "s3"
    region: str = REGION
    at: datetime | None = None

    @property
    def timestamp(self) -> str:
        return (self.at or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")

    def scope(self, timestamp: str) -> str:
        return f"{timestamp[:8]}/{self.region}/{self.service}/aws4_request"

    def sign(self, timestamp: str, text: str) -> str:
        """Sign a text with the signing key of the day."""
        key = f"AWS4{self.keys.secret_key}".encode()
        for word in self.scope(timestamp).split("/"):
            key = hmac.digest(key, word.encode(), "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()

    def headers(
        self,
        method: str,
        url: str,
        payload_hash: str,
        headers: Mapping[str, str] | None = None,
        *,
        path: str | None = None,
        payload: str | None = None,
    ) -> dict[str, str]:
        """The headers of a signed request. `path` and `payload` replace the sent ones in the signature."""
        parts, timestamp = urlsplit(url), self.timestamp
        sent = {**(headers or {}), "host": parts.netloc, "x-amz-date": timestamp, "x-amz-content-sha256": payload_hash}
        if self.keys.session_token:
            sent["x-amz-security-token"] = self.keys.session_token
        signed = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
        names = ";".join(sorted(signed))
        pairs = sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in parse_qsl(parts.query, True))
        lines = [
            method,
            parts.path if path is None else path,
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            payload_hash if payload is None else payload,
        ]
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{timestamp}\n{self.scope(timestamp)}\n{digest}"
        credential = f"{self.keys.access_key}/{self.scope(timestamp)}"
        signature = self.sign(timestamp, text)
        authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        return {**sent, "Authorization": authorization}


@dataclass(frozen=True, slots=True)
class Frame:
    """One chunk of a streaming body. The last one is empty."""

    payload: bytes
    signature: str | None

    def encode(self, *, is_last: bool) -> bytes:
        size = f"{len(self.payload):x}"
        head = size if self.signature is None else f"{size};chunk-signature={self.signature}"
        return head.encode() + b"\r\n" + (b"" if is_last else self.payload + b"\r\n")


@dataclass(frozen=True, slots=True)
class StreamingBody:
    """A chunked body that tests can modify before it is sent."""

    frames: Sequence[Frame]
    trailer: Mapping[str, str]
    trailer_signature: str | None = None

    def encode(self) -> bytes:
        last = len(self.frames) - 1
        text = b"".join(frame.encode(is_last=number == last) for number, frame in enumerate(self.frames))
        for name, value in self.trailer.items():
            text += f"{name}:{value}\r\n".encode()
        if self.trailer_signature is not None:
            text += f"x-amz-trailer-signature:{self.trailer_signature}\r\n".encode()
        return text + b"\r\n"

    def with_frame(self, number: int, frame: Frame) -> StreamingBody:
        frames = list(self.frames)
        frames[number] = frame
        return replace(self, frames=frames)


@dataclass(frozen=True, slots=True)
class StreamingPut:
    """A PUT in streaming chunks: signed headers and body."""

    url: str
    headers: dict[str, str]
    body: StreamingBody


def crc32_text(body: bytes) -> str:
    """CRC32 in S3's encoding."""
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def streaming_put(
    signer: Signer,
    url: str,
    body: bytes,
    kind: str,
    *,
    chunk_bytes: int = 64 * 1024,
    trailer: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    decoded_length: int | None = None,
) -> StreamingPut:
    """A request as the AWS SDK for Java sends it: chunks with chained signatures, and the trailer.

    `decoded_length` replaces the actual decoded length.
    """
    stated = {
        "content-encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(len(body) if decoded_length is None else decoded_length),
        **(headers or {}),
    }
    if trailer:
        stated["x-amz-trailer"] = ",".join(trailer)
    signed = signer.headers("PUT", url, kind, stated)
    timestamp = signed["x-amz-date"]
    context = f"{timestamp}\n{signer.scope(timestamp)}"
    previous = signed["Authorization"].rpartition("=")[2]
    frames = []
    for payload in [*(body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes)), b""]:
        signature = None
        if kind != UNSIGNED_TRAILER:
            digest = hashlib.sha256(payload).hexdigest()
            text = f"AWS4-HMAC-SHA256-PAYLOAD\n{context}\n{previous}\n{EMPTY_SHA256}\n{digest}"
            signature = previous = signer.sign(timestamp, text)
        frames.append(Frame(payload, signature))
    trailer_signature = None
    if kind == SIGNED_TRAILER:
        lines = "".join(f"{name}:{value}\n" for name, value in (trailer or {}).items())
        digest = hashlib.sha256(lines.encode()).hexdigest()
        trailer_signature = signer.sign(timestamp, f"AWS4-HMAC-SHA256-TRAILER\n{context}\n{previous}\n{digest}")
    return StreamingPut(url, signed, StreamingBody(frames, trailer or {}, trailer_signature))
