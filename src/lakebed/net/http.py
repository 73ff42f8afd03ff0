"""The small HTTP seam of the credential providers: one request, one answer, no redirects.

Redirects are never followed: a metadata service or STS that sends one is not the one we meant to show a token to.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from lakebed.core.errors import InvalidSetting, Unavailable

MAX_RESPONSE_BYTES = 1024 * 1024
"""More than any credentials answer; past it the other side is not what we took it for."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is asked. Headers and body may hold secrets and are kept out of `repr`."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    timeout_seconds: float = 5.0
    through_proxy: bool = False
    """Whether the environment's proxies are used. Metadata services are on the link and must not be."""
    max_answer_bytes: int = MAX_RESPONSE_BYTES
    """Past it the answer is refused."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back. The body may hold secrets."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name in lower case."""


Http = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends one request. Raises Unavailable when no answer came, InvalidSetting when it cannot be sent."""


async def send_with_retries(http: Http, request: HttpRequest, *, tries: int, who: str) -> HttpResponse:
    """The answer of `who`; asked up to `tries` times while none comes or the other side fails (429, 5xx)."""
    while True:
        tries -= 1
        try:
            answer = await http(request)
        except Unavailable as error:
            if tries <= 0:
                raise Unavailable(f"{who} did not answer") from error
        else:
            if tries <= 0 or (answer.status < 500 and answer.status != 429):
                return answer


def threaded_http(ca_bundle: str | None = None, threads: Executor | None = None) -> Http:
    """An `Http` on the standard library, each request in a thread: of the event loop's own, unless others are given.

    `ca_bundle` replaces the system's authorities.
    """

    def send(request: HttpRequest) -> HttpResponse:
        parts = urlsplit(request.url)
        connection = _connect(request, ca_bundle)
        try:
            path = parts.path or "/"
            target = f"{path}?{parts.query}" if parts.query else path
            connection.request(request.method, target, body=request.body or None, headers=dict(request.headers))
            answer = connection.getresponse()
            body = answer.read(request.max_answer_bytes + 1)
            if answer.length and len(body) <= request.max_answer_bytes:
                raise http.client.IncompleteRead(b"", answer.length)
        except ValueError:
            # Its message quotes the header that cannot be sent, which may be a token.
            raise InvalidSetting(f"a header or path that HTTP cannot carry. host={parts.hostname}") from None
        except (OSError, http.client.HTTPException) as error:
            # Only the class is told: some of these errors quote what was sent or received.
            raise Unavailable(
                f"no answer. host={parts.hostname} path={parts.path} reason={type(error).__name__}"
            ) from None
        finally:
            connection.close()
        if len(body) > request.max_answer_bytes:
            raise Unavailable(f"answer too long. host={parts.hostname} maximum={request.max_answer_bytes}")
        return HttpResponse(answer.status, body, {name.lower(): value for name, value in answer.headers.items()})

    async def send_in_thread(request: HttpRequest) -> HttpResponse:
        return await asyncio.get_running_loop().run_in_executor(threads, send, request)

    return send_in_thread


def _connect(request: HttpRequest, ca_bundle: str | None) -> http.client.HTTPConnection:
    parts = urlsplit(request.url)
    host = parts.hostname or ""
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port or 80, timeout=request.timeout_seconds)
    context = ssl.create_default_context(cafile=ca_bundle)
    port = parts.port or 443
    proxy = proxy_for(host) if request.through_proxy else None
    if proxy is None:
        return http.client.HTTPSConnection(host, port, timeout=request.timeout_seconds, context=context)
    tunnel = http.client.HTTPSConnection(
        proxy.hostname or "", proxy.port or 8080, timeout=request.timeout_seconds, context=context
    )
    tunnel.set_tunnel(host, port, headers=proxy_authorization(proxy))
    return tunnel


def proxy_for(host: str) -> SplitResult | None:
    """The environment's proxy for HTTPS to `host`, spoken to in plain HTTP, as CONNECT proxies are."""
    proxy = urllib.request.getproxies().get("https")
    if not proxy or urllib.request.proxy_bypass(host):
        return None
    return urlsplit(proxy if "//" in proxy else f"//{proxy}")


def proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    """What a proxy with a user in its address is to be told."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
