"""Signs outgoing requests with AWS Signature Version 4. Pure functions."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, Protocol
from urllib.parse import parse_qsl, quote

from .secrets import Secret

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_END: Final = "aws4_request"
_UNRESERVED: Final = "-_.~"


class SigV4Credentials(Protocol):
    """The credentials to sign with."""

    @property
    def access_key_id(self) -> str:
        """The key's public part."""
        ...

    @property
    def secret_access_key(self) -> Secret:
        """Its secret."""
        ...

    @property
    def session_token(self) -> Secret | None:
        """The session token of temporary credentials."""
        ...


def encode_segment(text: str) -> str:
    """Percent-encode one path segment, slashes included."""
    return quote(text, safe=_UNRESERVED)


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """A query string in canonical form."""
    encoded = sorted((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def signed_headers(
    method: str,
    *,
    host: str,
    path: str = "/",
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    region: str,
    service: str,
    credentials: SigV4Credentials,
    now_ms: int,
) -> dict[str, str]:
    """All headers of a request; names are in lower case. `path` and `query` are given as sent.

    Values of `headers` have no leading, trailing or repeated blanks.
    """
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body).hexdigest()
    sent = {name.lower(): value for name, value in (headers or {}).items()} | {"host": host, "x-amz-date": stamp}
    if service == "s3":
        sent["x-amz-content-sha256"] = digest
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token.reveal()
    names = ";".join(sorted(sent))
    canonical = "\n".join(
        [
            method,
            # S3 signs the path as sent; every other service encodes it once more.
            path if service == "s3" else quote(path, safe=f"/{_UNRESERVED}"),
            canonical_query(parse_qsl(query, keep_blank_values=True)),
            *(f"{name}:{sent[name]}" for name in sorted(sent)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/{_END}"
    to_sign = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_access_key.reveal()}".encode()
    for step in (stamp[:8], region, service, _END):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    sent["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent
