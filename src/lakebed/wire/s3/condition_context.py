"""Condition keys of an S3 request: from its headers, its signature and its connection.

Condition keys of the object that it writes come from the parsed attributes (`objects.condition_context`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.objects.condition_context import ConditionKeys
from lakebed.wire.aws import sigv4
from lakebed.wire.aws.authentication import Authenticated, PayloadClaim
from lakebed.wire.http.message import Request

OBJECT_HEADERS: Final = {
    "x-amz-acl": "s3:x-amz-acl",
    "x-amz-grant-full-control": "s3:x-amz-grant-full-control",
    "x-amz-grant-read": "s3:x-amz-grant-read",
    "x-amz-grant-read-acp": "s3:x-amz-grant-read-acp",
    "x-amz-grant-write": "s3:x-amz-grant-write",
    "x-amz-grant-write-acp": "s3:x-amz-grant-write-acp",
    "x-amz-server-side-encryption": "s3:x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id": "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-algorithm": "s3:x-amz-server-side-encryption-customer-algorithm",
    "x-amz-storage-class": "s3:x-amz-storage-class",
    "x-amz-website-redirect-location": "s3:x-amz-website-redirect-location",
}
"""Headers that describe an object. In POST forms they are fields."""

_HEADERS: Final = {
    **OBJECT_HEADERS,
    "user-agent": "aws:UserAgent",
    "referer": "aws:Referer",
    "x-amz-bucket-namespace": "s3:x-amz-bucket-namespace",
    "x-amz-copy-source": "s3:x-amz-copy-source",
    "x-amz-metadata-directive": "s3:x-amz-metadata-directive",
    "x-amz-object-ownership": "s3:x-amz-object-ownership",
}

_CONTENT: Final = "x-amz-content-sha256"
_CONNECTION_KEYS: Final = frozenset({"s3:TlsVersion"})
_TLS: Final = "TLSv"


def request_condition_keys(request: Request, authenticated: Authenticated, now_ms: int) -> ConditionKeys:
    """The condition keys of a request."""
    headers = request.headers
    condition_keys: ConditionKeys = {key: headers[name] for name, key in _HEADERS.items() if name in headers}
    if request.tls_version.startswith(_TLS):
        condition_keys["s3:TlsVersion"] = request.tls_version.removeprefix(_TLS)
    condition_keys["s3:signatureversion"] = sigv4.ALGORITHM
    if not authenticated.is_signed:
        condition_keys["s3:authType"] = "ANONYMOUS"
        if _CONTENT in headers:
            condition_keys[f"s3:{_CONTENT}"] = headers[_CONTENT]
        return condition_keys
    condition_keys["s3:authType"] = "REST-HEADER" if "authorization" in headers else "REST-QUERY-STRING"
    condition_keys[f"s3:{_CONTENT}"] = _content(authenticated.payload)
    if authenticated.signed_at is not None:
        condition_keys["s3:signatureAge"] = _age(authenticated.signed_at, now_ms)
    return condition_keys


def form_condition_keys(
    of_request: Mapping[str, str | tuple[str, ...]], fields: Mapping[str, str], signed_at: int | None, now_ms: int
) -> ConditionKeys:
    """The condition keys of a POST form: those of its request that do not describe the object, and those of its fields.

    `fields` have the names of headers; `signed_at` is None for an anonymous form.
    """
    condition_keys: ConditionKeys = {
        key: value for key, value in of_request.items() if not key.startswith("s3:") or key in _CONNECTION_KEYS
    }
    condition_keys |= {key: fields[name] for name, key in OBJECT_HEADERS.items() if name in fields}
    condition_keys["s3:signatureversion"] = sigv4.ALGORITHM
    if signed_at is None:
        condition_keys["s3:authType"] = "ANONYMOUS"
        return condition_keys
    condition_keys["s3:authType"] = "POST"
    condition_keys["s3:signatureAge"] = _age(signed_at, now_ms)
    return condition_keys


def _content(claim: PayloadClaim) -> str:
    # The signed value rather than the header: a presigned URL may be used with headers that its signer never saw.
    if claim.streaming is not None:
        return claim.streaming.value
    return sigv4.UNSIGNED_PAYLOAD if claim.sha256 is None else claim.sha256


def _age(signed_at: int, now_ms: int) -> str:
    # A client's clock may be ahead of the server's, up to the allowed skew.
    return str(max(0, now_ms - signed_at * 1000))
