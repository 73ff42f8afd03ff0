"""Signature Version 4 of requests that this side sends: a form to STS, a question to a catalog. Pure functions."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from .model import Credentials

FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"

_UNRESERVED = "-_.~"


def signed_form_headers(
    *, host: str, form: bytes, region: str, service: str, credentials: Credentials, now_ms: int
) -> dict[str, str]:
    """The headers to send with `form` to the root path of `host`."""
    return signed_headers(
        "POST",
        host=host,
        headers={"content-type": FORM_TYPE},
        body=form,
        region=region,
        service=service,
        credentials=credentials,
        now_ms=now_ms,
    )


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
    credentials: Credentials,
    now_ms: int,
) -> dict[str, str]:
    """All headers of a request; names are in lower case. `path` and `query` are as they will be sent."""
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    day = stamp[:8]
    sent = {**(headers or {}), "host": host, "x-amz-date": stamp}
    if credentials.session_token:
        sent["x-amz-security-token"] = credentials.session_token.reveal()
    names = ";".join(sorted(sent))
    canonical = "\n".join(
        [
            method,
            # S3 signs a path as it is sent; every other service one that is encoded once more.
            path if service == "s3" else quote(path, safe=f"/{_UNRESERVED}"),
            _canonical_query(query),
            *(f"{name}:{sent[name]}" for name in sorted(sent)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_access_key.reveal()}".encode()
    for step in (day, region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    sent["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _canonical_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    encoded = sorted((quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)
