"""An S3 request: which bucket and key it names, who sends it, and typed access to its headers and parameters."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.core.access import Principal
from lakebed.core.errors import InvalidInput
from lakebed.objects.model import Caller
from lakebed.wire.http.message import RAW_ERRORS, Request

from ..aws.authentication import Authenticated
from ..aws.numbers import signed_number
from .errors import AwsFault
from .xml import MalformedDocument, parse_time

_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class S3Target:
    """The bucket and key that a request names, by its path or its host."""

    __slots__ = ("bucket", "key")

    def __init__(self, bucket: str, key: str) -> None:
        self.bucket = bucket
        self.key = key


def parse_target(raw_path: str, host: str, domains: tuple[str, ...]) -> S3Target:
    """Find bucket and key: `bucket.domain/key` where the host ends in a domain of ours, `/bucket/key` otherwise.

    Raises S3Fault when the path is not percent-encoded UTF-8, or goes on where the bucket's name should be.
    """
    path = raw_path[1:]
    if domains:
        named = bucket_of_host(host, domains)
        if named is not None:
            return S3Target(named, decode_path(path))
    bucket, _, key = path.partition("/")
    if path and not bucket:
        # `//key` names no bucket: taken for the root, it would list buckets.
        raise AwsFault(400, "InvalidBucketName", "The specified bucket is not valid.", BucketName="")
    if _is_plain(path):
        return S3Target(bucket, key)
    return S3Target(decode_path(bucket), decode_path(key))


def bucket_of_host(host: str, domains: tuple[str, ...]) -> str | None:
    """The bucket that a host names, where it is `bucket.domain`: the request is virtual-host-style."""
    name = host.rpartition(":")[0] if ":" in host else host
    for domain in domains:
        if name.endswith("." + domain):
            return name[: -len(domain) - 1]
    return None


def _is_plain(text: str) -> bool:
    """Whether a piece of a path stands for itself."""
    return "%" not in text and "\0" not in text and text.isascii()


def decode_path(text: str) -> str:
    """Decode a piece of a path. Raises S3Fault for what is not percent-encoded UTF-8, or holds a NUL."""
    if _is_plain(text):
        return text
    try:
        decoded = unquote_to_bytes(text.encode("utf-8", RAW_ERRORS)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad_uri() from error
    if "\0" in decoded or _BARE_PERCENT.search(text) is not None:
        raise _bad_uri()
    return decoded


def _bad_uri() -> AwsFault:
    return AwsFault(400, "InvalidURI", "Couldn't parse the specified URI.")


def identify(request: Request, principal: Principal) -> None:
    """Let logs and the trace know who it is."""
    request.principal = principal.name
    session = principal.session
    if session is not None and session.delegation:
        request.delegated = session


class S3Request:
    """What a handler gets."""

    __slots__ = ("bucket", "caller", "headers", "http", "key", "who")

    def __init__(self, http: Request, target: S3Target, who: Authenticated, caller: Caller) -> None:
        self.http = http
        self.headers = http.headers
        self.bucket = target.bucket
        self.key = target.key
        self.who = who
        self.caller = caller

    @property
    def query(self) -> dict[str, str]:
        """Decoded query parameters."""
        return self.http.query

    def parameter(self, name: str) -> str | None:
        """A query parameter; an empty one counts as absent."""
        return self.http.query.get(name) or None

    def integer(self, name: str, default: int, *, most: int) -> int:
        """A number among the parameters, cut to `most`. Raises InvalidInput."""
        text = self.http.query.get(name)
        if text is None or text == "":
            return default
        value = signed_number(text)
        if value is None or value > 2**31 - 1:
            raise InvalidInput(f"Provided {name} not an integer or within integer range", argument=name, value=text)
        if value < 0:
            raise InvalidInput(
                f"Argument {name} must be an integer between 0 and {2**31 - 1}", argument=name, value=text
            )
        return min(value, most)

    def time_header(self, name: str) -> int | None:
        """A time among the headers, in milliseconds; one that cannot be read is as if absent, as RFC 9110 says."""
        text = self.headers.get(name)
        if text is None:
            return None
        try:
            return parse_time(text)
        except MalformedDocument:
            return None

    @property
    def version(self) -> str | None:
        """`versionId`. Raises S3Fault when it is there but cannot be one."""
        if not self.http.raw_query:
            return None
        version = self.http.query.get("versionId")
        if version == "":
            raise AwsFault(400, "InvalidArgument", "Version id cannot be the empty string", ArgumentName="versionId")
        return None if version is None else checked_version(version)

    @property
    def annotated_version(self) -> str | None:
        """`versionId` of a lock's request, where clients send an empty one for the current version. Raises S3Fault."""
        return self.version if self.http.query.get("versionId") else None


def checked_version(version: str) -> str:
    """The same version id, if it can be one: they are letters and digits. Raises S3Fault."""
    if not version.isascii() or not version.isalnum():
        raise AwsFault(
            400,
            "InvalidArgument",
            "Invalid version id specified",
            ArgumentName="versionId",
            ArgumentValue=version[:200],
        )
    return version
