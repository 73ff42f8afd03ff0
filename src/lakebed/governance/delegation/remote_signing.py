"""Remote signing: which requests the catalog signs, and which of their headers. Pure.

Only requests that engines send for a table's files are signed. The signing credentials are limited to the table's
directories anyway; these checks refuse early and with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from lakebed.core.errors import AccessDenied, InvalidInput

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

_IGNORED_PARAMETERS: Final = frozenset({"x-id"})
"""Parameters that SDKs add to any request and S3 ignores."""

_OBJECT_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "GET": _IGNORED_PARAMETERS
    | {
        "versionId",
        "partNumber",
        "uploadId",
        "max-parts",
        "part-number-marker",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
    },
    "HEAD": _IGNORED_PARAMETERS | {"versionId", "partNumber"},
    "PUT": _IGNORED_PARAMETERS | {"partNumber", "uploadId"},
    "POST": _IGNORED_PARAMETERS | {"uploads", "uploadId"},
    "DELETE": _IGNORED_PARAMETERS | {"uploadId"},
}
"""Parameters of requests on one key. Others select another operation, such as an ACL, a tag or a lock."""

_LIST_PARAMETERS: Final = _IGNORED_PARAMETERS | {
    "list-type",
    "prefix",
    "delimiter",
    "continuation-token",
    "start-after",
    "marker",
    "max-keys",
    "encoding-type",
    "fetch-owner",
    "uploads",
    "key-marker",
    "upload-id-marker",
    "max-uploads",
}
_BATCH_PARAMETERS: Final = _IGNORED_PARAMETERS | {"delete"}

_REPLACED: Final = frozenset({"authorization", "host", "x-amz-date", "x-amz-security-token"})
"""Headers that the signature sets."""


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """A request to sign."""

    method: str
    bucket: str
    key: str
    """Empty for requests on the bucket."""
    query: Mapping[str, str]
    batch: tuple[str, ...] = ()
    """The keys in the body of a batch delete."""
    copy_source: tuple[str, str] | None = None
    """Bucket and key of a copy's source."""


class AffectedKeys(NamedTuple):
    """The keys that a request reads or writes."""

    keys: tuple[str, ...]
    prefix: str | None
    """The listed prefix; None for other requests."""
    writes: bool

    @property
    def first(self) -> str:
        """A key or prefix, to find the table that it belongs to."""
        return self.keys[0] if self.keys else self.prefix or ""


class TableDirectories(Protocol):
    """The directories of one table."""

    def contains(self, key: str) -> bool:
        """Whether a key is in one of them."""
        ...

    def contains_directory(self, prefix: str) -> bool:
        """Whether a prefix is one of them or in one."""
        ...


def affected_keys(call: SigningRequest) -> AffectedKeys:
    """The keys that a request affects. Raises InvalidInput for requests that are not signed."""
    method, query = call.method, call.query
    if call.key:
        _refuse_unknown(query, _OBJECT_PARAMETERS.get(method), method)
        if method == "POST" and not query.keys() & {"uploads", "uploadId"}:
            raise InvalidInput("a POST on one key must belong to an upload", argument="uri")
        keys = [call.key]
        if call.copy_source is not None:
            bucket, source = call.copy_source
            if bucket != call.bucket:
                raise AccessDenied(f"the copy's source is in another bucket. bucket={bucket}")
            keys.append(source)
        # Listing the parts of an upload is for writers.
        return AffectedKeys(tuple(keys), None, method not in ("GET", "HEAD") or "uploadId" in query)
    if method == "GET":
        _refuse_unknown(query, _LIST_PARAMETERS, method)
        return AffectedKeys((), query.get("prefix", ""), "uploads" in query)
    if method == "POST" and "delete" in query:
        _refuse_unknown(query, _BATCH_PARAMETERS, method)
        if not call.batch:
            raise InvalidInput("the body with the keys to delete is missing", argument="body")
        return AffectedKeys(call.batch, None, True)
    raise InvalidInput(f"requests of this kind are not signed. method={method}", argument="method", value=method)


def check_within(reach: AffectedKeys, directories: TableDirectories, *, may_write: bool) -> None:
    """Return if all affected keys are in the directories. Raises AccessDenied."""
    if reach.writes and not may_write:
        raise AccessDenied("the caller can read the table's files but not change them")
    for key in reach.keys:
        if not directories.contains(key) or any(segment in (".", "..") for segment in key.split("/")):
            raise AccessDenied(f"the key is not in a directory of the table. key={key}")
    if reach.prefix is not None and not directories.contains_directory(reach.prefix):
        # Compared as a directory: the prefix `t` also matches `t10`.
        raise AccessDenied(f"the prefix is not a directory of the table. prefix={reach.prefix}")


def signed_headers(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The headers to sign, by lower-case name, with the payload hash.

    Only `x-amz-` headers and the body's digest, as S3 requires. Others are left out, so that a signature is valid for
    every `range` of a file. Raises InvalidInput for a body that is signed in chunks.
    """
    signed: dict[str, str] = {}
    for name, values in headers.items():
        lower = name.lower()
        if lower not in _REPLACED and (lower.startswith("x-amz-") or lower == "content-md5"):
            signed[lower] = ",".join(values)
    default = UNSIGNED_TRAILER if "x-amz-trailer" in signed else UNSIGNED_PAYLOAD
    stated = signed.setdefault("x-amz-content-sha256", default)
    if stated.startswith("STREAMING-") and stated != UNSIGNED_TRAILER:
        raise InvalidInput("a body signed in chunks must be signed by the client", argument="x-amz-content-sha256")
    return signed


def returned_headers(headers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The client's own headers, returned unchanged."""
    return {name: list(values) for name, values in headers.items() if name.lower() not in _REPLACED}


def _refuse_unknown(query: Mapping[str, str], known: frozenset[str] | None, method: str) -> None:
    if known is None:
        raise InvalidInput(f"requests of this method are not signed. method={method}", argument="method", value=method)
    for name in query:
        if name not in known:
            raise InvalidInput(
                f"requests with this parameter are not signed. method={method} parameter={name}", argument="uri"
            )
