"""Redaction of audit records: only listed headers and query parameters are logged. Pure.

The lists contain headers and parameters that cannot carry credentials. Signatures, tokens, cookies, encryption keys,
user metadata, referrers (which may be presigned URLs) and all unknown names are omitted; of bodies only the length is
logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.events.requests import RequestEntry
from lakebed.wire.http.message import Request, Response, parse_query
from lakebed.wire.http.request_audit import RequestRecord

from .refusals import claimed_key

MAX_CHARS: Final = 1024
"""Most characters of a value. Paths may be longer: a key of 1024 bytes can take three characters for each."""
_MAX_PATH_CHARS: Final = 4096

LOGGED_REQUEST_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-md5",
        "content-type",
        "date",
        "expect",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "origin",
        "range",
        "traceparent",
        "transfer-encoding",
        "x-amz-acl",
        "x-amz-bypass-governance-retention",
        "x-amz-checksum-mode",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-expected-bucket-owner",
        "x-amz-metadata-directive",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-customer-algorithm",
        "x-amz-storage-class",
        "x-amz-tagging-directive",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-iceberg-access-delegation",
    }
)

LOGGED_RESPONSE_HEADERS: Final = frozenset(
    {
        "accept-ranges",
        "content-encoding",
        "content-range",
        "content-type",
        "etag",
        "last-modified",
        "retry-after",
        "x-amz-delete-marker",
        "x-amz-id-2",
        "x-amz-request-id",
        "x-amz-server-side-encryption",
        "x-amz-version-id",
        "x-request-id",
    }
)

LOGGED_PARAMETERS: Final = frozenset(
    {
        "accelerate",
        "acl",
        "analytics",
        "attributes",
        "cors",
        "delete",
        "delimiter",
        "encoding-type",
        "encryption",
        "events",
        "fetch-owner",
        "intelligent-tiering",
        "inventory",
        "key-marker",
        "legal-hold",
        "lifecycle",
        "limit",
        "list-type",
        "location",
        "logging",
        "marker",
        "max-keys",
        "max-parts",
        "max-uploads",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "part-number-marker",
        "partNumber",
        "ping",
        "policy",
        "policyStatus",
        "prefix",
        "publicAccessBlock",
        "purgeRequested",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "select-type",
        "snapshots",
        "start-after",
        "state",
        "suffix",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "version-id-marker",
        "versionId",
        "versioning",
        "versions",
        "warehouse",
        "website",
        "x-id",
        "X-Amz-Algorithm",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
    }
)


def request_entry(record: RequestRecord, request: Request, response: Response | None, node: str) -> RequestEntry:
    """The audit record of a request after its response was sent, or without a response."""
    headers = request.headers
    return RequestEntry(
        edge=record.edge,
        api=record.operation,
        method=request.method,
        bucket=_storable(record.bucket),
        object=_storable(record.key, _MAX_PATH_CHARS),
        status=0 if response is None else response.status,
        received_bytes=request.body.received,
        sent_bytes=record.sent_bytes,
        first_byte_ns=_ns(record.responded - record.began),
        response_ns=_ns(record.ended - record.began),
        request_id=request.request_id,
        source_ip=request.peer,
        host=_storable(headers.get("host", "")),
        path=_storable(request.raw_path, _MAX_PATH_CHARS),
        user_agent=_storable(headers.get("user-agent", "")),
        query=redacted_query(request.raw_query),
        request_headers=_redacted(headers.items(), LOGGED_REQUEST_HEADERS),
        response_headers={} if response is None else _redacted(response.headers, LOGGED_RESPONSE_HEADERS),
        principal=request.principal,
        access_key=_storable(claimed_key(request)),
        delegation="" if request.delegated is None else request.delegated.delegation,
        node=node,
    )


def redacted_query(raw_query: str) -> dict[str, str]:
    """The loggable parameters of a query; none if it cannot be parsed."""
    if not raw_query:
        return {}
    try:
        parsed = parse_query(raw_query)
    except InvalidInput:
        return {}
    return {name: _storable(value) for name, value in parsed.items() if name in LOGGED_PARAMETERS}


def _redacted(headers: Iterable[tuple[str, str]], names: frozenset[str]) -> dict[str, str]:
    return {lower: _storable(value) for name, value in headers if (lower := name.lower()) in names}


def _storable(text: str, limit: int = MAX_CHARS) -> str:
    """Truncated text that is valid in JSON and every store: bytes that are not UTF-8 become question marks."""
    return text[:limit].encode("utf-8", "replace").decode()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
