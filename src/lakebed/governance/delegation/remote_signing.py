"""Which requests to the object store are signed for others: what a request touches, and what of it is signed. Pure.

Only requests that engines send for a table's files are signed at all. The keys that sign open the table's directories
and nothing else, so what is decided here decides early and says why; it is not what keeps the rest closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from lakebed.core.errors import AccessDenied, InvalidInput

UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

_ANY: Final = frozenset({"x-id"})
"""Parameters that SDKs put on any request; they mean nothing to the store."""

_OBJECT_PARAMETERS: Final[Mapping[str, frozenset[str]]] = {
    "GET": _ANY
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
    "HEAD": _ANY | {"versionId", "partNumber"},
    "PUT": _ANY | {"partNumber", "uploadId"},
    "POST": _ANY | {"uploads", "uploadId"},
    "DELETE": _ANY | {"uploadId"},
}
"""Parameters of requests for one key. With any other it is another operation: an ACL, a tag, a lock."""

_LIST_PARAMETERS: Final = _ANY | {
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
_BATCH_PARAMETERS: Final = _ANY | {"delete"}

_REPLACED: Final = frozenset({"authorization", "host", "x-amz-date", "x-amz-security-token"})
"""Headers that the signature brings itself."""


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """A request that somebody wants to have signed."""

    method: str
    bucket: str
    key: str
    """Empty for a request on the bucket itself."""
    query: Mapping[str, str]
    batch: tuple[str, ...] = ()
    """The keys in its body, where it deletes many."""
    copy_source: tuple[str, str] | None = None
    """Bucket and key of what it copies from."""


class AffectedKeys(NamedTuple):
    """What a request touches."""

    keys: tuple[str, ...]
    prefix: str | None
    """The keys that it lists begin so; None if it lists none."""
    writes: bool

    @property
    def first(self) -> str:
        """One of the names, for finding out whose they are."""
        return self.keys[0] if self.keys else self.prefix or ""


class TableDirectories(Protocol):
    """The files of one table."""

    def holds(self, key: str) -> bool:
        """Whether a key is inside."""
        ...

    def holds_directory(self, prefix: str) -> bool:
        """Whether a prefix of keys is that of a directory inside."""
        ...


def affected_keys(call: SigningRequest) -> AffectedKeys:
    """What the request touches. Raises InvalidInput for a request of a kind that is not signed."""
    method, query = call.method, call.query
    if call.key:
        _refuse_others(query, _OBJECT_PARAMETERS.get(method), method)
        if method == "POST" and not query.keys() & {"uploads", "uploadId"}:
            raise InvalidInput("a POST of one key belongs to an upload", argument="uri")
        keys = [call.key]
        if call.copy_source is not None:
            bucket, source = call.copy_source
            if bucket != call.bucket:
                raise AccessDenied(f"the copy's source is in another bucket. bucket={bucket}")
            keys.append(source)
        # Parts of an upload are of interest to who writes them.
        return AffectedKeys(tuple(keys), None, method not in ("GET", "HEAD") or "uploadId" in query)
    if method == "GET":
        _refuse_others(query, _LIST_PARAMETERS, method)
        return AffectedKeys((), query.get("prefix", ""), "uploads" in query)
    if method == "POST" and "delete" in query:
        _refuse_others(query, _BATCH_PARAMETERS, method)
        if not call.batch:
            raise InvalidInput("the body is missing, which says what is deleted", argument="body")
        return AffectedKeys(call.batch, None, True)
    raise InvalidInput(f"no request of this kind is signed. method={method}", argument="method", value=method)


def check_within(reach: AffectedKeys, directories: TableDirectories, *, may_write: bool) -> None:
    """Return if all that a request touches is in the directories. Raises AccessDenied."""
    if reach.writes and not may_write:
        raise AccessDenied("the caller may read the table's files and not change them")
    for key in reach.keys:
        if not directories.holds(key) or any(segment in (".", "..") for segment in key.split("/")):
            raise AccessDenied(f"the key is not in a directory of the table. key={key}")
    if reach.prefix is not None and not directories.holds_directory(reach.prefix):
        # Compared as a directory: keys that begin with `t` are also those of `t10`.
        raise AccessDenied(f"the prefix is not that of a directory of the table. prefix={reach.prefix}")


def signed_headers(headers: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The headers of a request that are signed, by name in lower case, and what is said of the body.

    Those that the store insists on, and the body's digest. Any other is left to the client: a signature that does not
    cover `range` is good for every range of a file. Raises InvalidInput for a body that is signed in chunks.
    """
    signed: dict[str, str] = {}
    for name, values in headers.items():
        lower = name.lower()
        if lower not in _REPLACED and (lower.startswith("x-amz-") or lower == "content-md5"):
            signed[lower] = ",".join(values)
    default = UNSIGNED_TRAILER if "x-amz-trailer" in signed else UNSIGNED_PAYLOAD
    stated = signed.setdefault("x-amz-content-sha256", default)
    if stated.startswith("STREAMING-") and stated != UNSIGNED_TRAILER:
        raise InvalidInput("a body that is signed in chunks is signed by who sends it", argument="x-amz-content-sha256")
    return signed


def returned_headers(headers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The headers that go back as they came."""
    return {name: list(values) for name, values in headers.items() if name.lower() not in _REPLACED}


def _refuse_others(query: Mapping[str, str], known: frozenset[str] | None, method: str) -> None:
    if known is None:
        raise InvalidInput(f"no request of this method is signed. method={method}", argument="method", value=method)
    for name in query:
        if name not in known:
            raise InvalidInput(f"no request of this kind is signed. method={method} parameter={name}", argument="uri")
