"""A fake machine for credential sources, and responses of metadata services."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.net.http import Http, HttpRequest, HttpResponse
from lakebed.net.sync_client import threaded_http
from lakebed.storage.credentials import HostEnvironment

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


async def no_network(request: HttpRequest) -> HttpResponse:
    """A network without any reachable host."""
    raise Unavailable(f"no response. url={request.url}")


def network_to(url: str) -> Http:
    """A network where every host is the server at `url`, for services with fixed addresses."""
    send = threaded_http()

    async def redirected(request: HttpRequest) -> HttpResponse:
        parts = urlsplit(request.url)
        server = urlsplit(url)
        target = parts._replace(scheme=server.scheme, netloc=server.netloc).geturl()
        headers = {"host": parts.netloc, **request.headers}
        return await send(replace(request, url=target, headers=headers))

    return redirected


def machine(
    environ: Mapping[str, str] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    http: Http = no_network,
    clock: ManualClock | None = None,
    prints: Mapping[str, bytes] | None = None,
) -> HostEnvironment:
    """A fake machine. `files` and `prints` are read on every call, so tests may change them."""
    contents = {} if files is None else files
    programs = {} if prints is None else prints

    async def read_file(path: str) -> str | None:
        return contents.get(path)

    async def run_process(command: str) -> bytes:
        return programs[command]

    return HostEnvironment(environ or {}, clock or ManualClock(NOW_MS), http, read_file, run_process)


def iso(ms: int) -> str:
    """A time in the form of AWS."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_document(key_id: str = "ASIAFRESH", *, expires_ms: int = NOW_MS + HOUR_MS, **more: str) -> bytes:
    """The JSON response of metadata services."""
    document = {"AccessKeyId": key_id, "SecretAccessKey": "hidden-secret", "Token": "hidden-token"}
    return json.dumps({**document, "Expiration": iso(expires_ms), **more}).encode()


def sts_response(key_id: str = "ASIAROLE", *, expires_ms: int = NOW_MS + HOUR_MS, action: str = "AssumeRole") -> bytes:
    """The XML response of a token service."""
    return f"""<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>
      <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/r/s</Arn><AssumedRoleId>AROA:s</AssumedRoleId></AssumedRoleUser>
      <Credentials><AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>hidden-secret</SecretAccessKey>
      <SessionToken>hidden-token</SessionToken><Expiration>{iso(expires_ms)}</Expiration></Credentials>
      </{action}Result></{action}Response>""".encode()


def sts_error(code: str, message: str = "no") -> bytes:
    """The XML error response of a token service."""
    return (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    ).encode()
