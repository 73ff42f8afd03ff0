"""An S3 request: which bucket and key it names, who sends it, and typed access to its headers and parameters."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.core.errors import InvalidInput
from lakebed.objects.model import Caller
from lakebed.wire.http.message import RAW_ERRORS, Request

from .authenticate import Authenticated
from .errors import S3Fault
from .xml import MalformedDocument, parse_time

MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024


class Target:
    """The bucket and key that a request names, by its path or its host."""

    __slots__ = ("bucket", "key")

    def __init__(self, bucket: str, key: str) -> None:
        self.bucket = bucket
        self.key = key


def parse_target(raw_path: str, host: str, domains: tuple[str, ...]) -> Target:
    """Find bucket and key: `bucket.domain/key` where the host ends in a domain of ours, `/bucket/key` otherwise.

    Raises S3Fault when the path is not percent-encoded UTF-8.
    """
    path = raw_path[1:]
    if domains:
        name = host.rpartition(":")[0] if ":" in host else host
        for domain in domains:
            if name.endswith("." + domain):
                return Target(name[: -len(domain) - 1], decode_path(path))
    bucket, _, key = path.partition("/")
    return Target(decode_path(bucket), decode_path(key))


def decode_path(text: str) -> str:
    """Decode a piece of a path. Raises S3Fault."""
    if "%" not in text and text.isascii():
        return text
    try:
        return unquote_to_bytes(text.encode("utf-8", RAW_ERRORS)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise S3Fault(400, "InvalidURI", "Couldn't parse the specified URI.") from error


class S3Request:
    """What a handler gets."""

    __slots__ = ("bucket", "caller", "headers", "http", "key", "who")

    def __init__(self, http: Request, target: Target, who: Authenticated, caller: Caller) -> None:
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

    def integer(self, name: str, default: int, *, most: int, least: int = 0) -> int:
        """A number among the parameters, cut to `most`. Raises InvalidInput."""
        text = self.http.query.get(name)
        if text is None or text == "":
            return default
        if not text.isascii() or not text.lstrip("-").isdigit() or int(text) > 2**31 - 1:
            raise InvalidInput(f"Provided {name} not an integer or within integer range", argument=name, value=text)
        value = int(text)
        if value < least:
            raise InvalidInput(
                f"Argument {name} must be an integer between {least} and {2**31 - 1}", argument=name, value=text
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
        """`versionId`. Raises S3Fault when it is there but empty."""
        version = self.http.query.get("versionId")
        if version == "":
            raise S3Fault(400, "InvalidArgument", "Version id cannot be the empty string", ArgumentName="versionId")
        return version
