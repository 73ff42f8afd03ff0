"""Signature Version 4 of one form sent by POST: what a call to STS needs, as a pure function."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime

from .model import Credentials

FORM_TYPE = "application/x-www-form-urlencoded; charset=utf-8"


def signed_form_headers(
    *, host: str, form: bytes, region: str, service: str, credentials: Credentials, now_ms: int
) -> dict[str, str]:
    """The headers to send with `form` to the root path of `host`."""
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    day = stamp[:8]
    headers = {"content-type": FORM_TYPE, "host": host, "x-amz-date": stamp}
    if credentials.session_token:
        headers["x-amz-security-token"] = credentials.session_token.reveal()
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        [
            "POST",
            "/",
            "",
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            hashlib.sha256(form).hexdigest(),
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_access_key.reveal()}".encode()
    for step in (day, region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
