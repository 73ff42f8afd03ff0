"""HTTP requests, responses and failures, shared by the async and the sync client.

Redirects are never followed: requests carry secrets that are meant for the configured server only.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidSetting, LakebedError, Unavailable

MAX_RESPONSE_BYTES: Final = 1024 * 1024
"""Default limit of a response: more than any credentials or token document."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods that change nothing on the server."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. Headers and body may hold secrets and are kept out of `repr`."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`host`, if given, is in lower case. Content-Length is the client's."""
    body: bytes = field(default=b"", repr=False)
    timeout_seconds: float = 5.0
    """In the async client, until the response is complete; in the sync client, for each read and write."""
    through_proxy: bool = False
    """Whether HTTPS uses the environment's proxy. Metadata services are link-local and must not be proxied."""
    max_response_bytes: int = MAX_RESPONSE_BYTES
    """A longer response is a failure."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete response. The body may hold secrets."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name in lower case; values of repeated headers are joined with a comma."""


Http = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends one request. Raises Unavailable when no response arrives, InvalidSetting when the request cannot be sent."""


class UrlParts(NamedTuple):
    """Server and path of a URL."""

    scheme: str
    host: str
    port: int
    netloc: str
    target: str
    """The request target: path and query."""


@lru_cache(maxsize=64)
def split_url(url: str) -> UrlParts:
    """The parts of a URL that a connection needs. Raises ValueError for an invalid port."""
    parts = urlsplit(url)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    return UrlParts(
        parts.scheme, parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443), parts.netloc, target
    )


# -- failures -------------------------------------------------------------------------------------------------------


class HttpFailure(Exception):
    """A request got no complete response. Callers translate it into their own error; `unavailable` suits most.

    The message has only the class of the error: some errors quote the data sent or received.
    """

    def __init__(self, request: HttpRequest, error: Exception, *, is_sent: bool) -> None:
        super().__init__(type(error).__name__)
        self.request = request
        self.error = error
        self.is_sent = is_sent
        """Whether the server may have received the request."""


class Unsendable(Exception):
    """A header or path has characters that HTTP cannot carry."""


class ResponseTooLong(Exception):
    """The response exceeds the limit of its request."""


def unavailable(failure: HttpFailure) -> LakebedError:
    """The error for a failure: InvalidSetting for an unsendable request, otherwise Unavailable. Quotes no secrets."""
    request = failure.request
    destination = split_url(request.url)
    if isinstance(failure.error, Unsendable):
        return InvalidSetting(f"header or path has characters that HTTP cannot carry. host={destination.host}")
    undecided = failure.is_sent and request.method not in SAFE_METHODS
    if isinstance(failure.error, ResponseTooLong):
        return Unavailable(
            f"response too long. host={destination.host} maximum={request.max_response_bytes}", undecided=undecided
        )
    path = destination.target.partition("?")[0]
    return Unavailable(
        f"no response. host={destination.host} path={path} reason={_reason(failure.error)}", undecided=undecided
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verification failed ({error.verify_message})"
    return type(error).__name__


async def send_with_retries(http: Http, request: HttpRequest, *, tries: int, service: str) -> HttpResponse:
    """The response; tries up to `tries` times while none arrives or the server fails (429, 5xx)."""
    while True:
        tries -= 1
        try:
            response = await http(request)
        except Unavailable as error:
            if tries <= 0:
                raise Unavailable(f"no response from {service}") from error
        else:
            if tries <= 0 or (response.status < 500 and response.status != 429):
                return response
