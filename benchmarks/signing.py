"""Request heads that the load program sends as they are: signed with SigV4, or unsigned.

This SigV4 is independent of the server's, so that an error in one is not hidden by the same error in the other.
Paths and query values are given unencoded.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SAFE = "-_.~"
PRESIGNED_SECONDS = 6 * 3600


class Signing(enum.Enum):
    """Where the signature is; decides also whether it covers the body."""

    HEADER = "header"
    """`Authorization` header over the body's SHA-256, as SDKs send over plain HTTP."""
    PRESIGNED = "presigned"
    """Query parameters; the payload is unsigned."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A random key pair of one run."""

    access_key: str
    secret_key: str = field(repr=False)


class Signer:
    """Signs for one host at one time; heads are valid for 15 minutes, presigned ones for hours."""

    def __init__(self, credentials: Credentials, host: str, now: datetime, region: str = "us-east-1") -> None:
        self._host = host
        self._stamp = now.strftime("%Y%m%dT%H%M%SZ")
        self._scope = f"{self._stamp[:8]}/{region}/s3/aws4_request"
        self._credential = f"{credentials.access_key}/{self._scope}"
        key = f"AWS4{credentials.secret_key}".encode()
        for step in (self._stamp[:8], region, "s3", "aws4_request"):
            key = hmac.digest(key, step.encode(), "sha256")
        self._key = key

    def head(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        payload_sha256: str,
        length: int | None,
        signing: Signing,
    ) -> str:
        """Return request line and headers with the empty line. `headers` have lower-case names and are signed."""
        if signing is Signing.HEADER:
            signed = {**headers, "host": self._host, "x-amz-content-sha256": payload_sha256, "x-amz-date": self._stamp}
            parameters, canonical_query = dict(query), _encode(query)
            names = ";".join(sorted(signed))
            signature = self._sign(method, path, canonical_query, signed, names, payload_sha256)
            lines = {**signed, "authorization": self._authorization(names, signature)}
        else:
            signed = {**headers, "host": self._host}
            names = ";".join(sorted(signed))
            parameters = {
                **query,
                "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
                "X-Amz-Credential": self._credential,
                "X-Amz-Date": self._stamp,
                "X-Amz-Expires": str(PRESIGNED_SECONDS),
                "X-Amz-SignedHeaders": names,
            }
            parameters["X-Amz-Signature"] = self._sign(method, path, _encode(parameters), signed, names, UNSIGNED)
            lines = dict(signed)
        if length is not None:
            lines["content-length"] = str(length)
        return _head(method, path, parameters, lines)

    def _authorization(self, names: str, signature: str) -> str:
        return f"AWS4-HMAC-SHA256 Credential={self._credential}, SignedHeaders={names}, Signature={signature}"

    def _sign(
        self, method: str, path: str, query: str, signed: Mapping[str, str], names: str, payload_sha256: str
    ) -> str:
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = f"{method}\n{quote(path, safe='/' + SAFE)}\n{query}\n{lines}\n{names}\n{payload_sha256}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self._stamp}\n{self._scope}\n{digest}"
        return hmac.digest(self._key, text.encode(), "sha256").hex()


class Unsigned:
    """Writes heads for a server without authentication."""

    def __init__(self, host: str) -> None:
        self._host = host

    def head(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        payload_sha256: str,
        length: int | None,
        signing: Signing,
    ) -> str:
        """Return request line and headers with the empty line."""
        lines = {**headers, "host": self._host}
        if length is not None:
            lines["content-length"] = str(length)
        return _head(method, path, query, lines)


def _head(method: str, path: str, query: Mapping[str, str], lines: Mapping[str, str]) -> str:
    target = quote(path, safe="/" + SAFE) + ("?" + _encode(query) if query else "")
    return f"{method} {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"


def _encode(query: Mapping[str, str]) -> str:
    pairs = sorted((quote(name, safe=SAFE), quote(value, safe=SAFE)) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
