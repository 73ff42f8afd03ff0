"""Parses bucket and key of path-style and virtual-host-style requests."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.wire.http.message import RAW_ERRORS

from .errors import AwsFault

_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class S3Target:
    """The bucket and key of a request, from its path or its host."""

    __slots__ = ("bucket", "key")

    def __init__(self, bucket: str, key: str) -> None:
        self.bucket = bucket
        self.key = key


def parse_target(raw_path: str, host: str, domains: tuple[str, ...]) -> S3Target:
    """Parse bucket and key: `bucket.domain/key` if the host ends in one of the domains, `/bucket/key` otherwise.

    Raises AwsFault if the path is not percent-encoded UTF-8, or if the bucket name is empty before a key, or has a
    slash.
    """
    path = raw_path[1:]
    if domains:
        named = bucket_of_host(host, domains)
        if named is not None:
            return S3Target(named, decode_path(path))
    bucket, _, key = path.partition("/")
    if path and not bucket:
        # `//key` has no bucket: treated as the root, it would list buckets.
        raise AwsFault(400, "InvalidBucketName", "The specified bucket is not valid.", BucketName="")
    if _is_plain(path):
        return S3Target(bucket, key)
    decoded = decode_path(bucket)
    if "/" in decoded:
        # Names with a slash are of buckets in other object stores, which are not served here.
        raise AwsFault(400, "InvalidBucketName", "The specified bucket is not valid.", BucketName=decoded)
    return S3Target(decoded, decode_path(key))


def bucket_of_host(host: str, domains: tuple[str, ...]) -> str | None:
    """The bucket of a virtual-host-style request, whose host is `bucket.domain`; None otherwise."""
    name = host.rpartition(":")[0] if ":" in host else host
    for domain in domains:
        if name.endswith("." + domain):
            return name[: -len(domain) - 1]
    return None


def _is_plain(text: str) -> bool:
    """Whether the text needs no decoding."""
    return "%" not in text and "\0" not in text and text.isascii()


def decode_path(text: str) -> str:
    """Decode a part of a path. Raises AwsFault unless it is percent-encoded UTF-8 without NUL."""
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
