"""HTTP requests whose target, headers and body are sent exactly as given."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def code(self) -> str:
        """The error code of the response document; empty if it has none."""
        found = re.search(rb"<Code>([^<]+)</Code>", self.body)
        return found[1].decode() if found else ""


def fetch(method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
    """One request on a new connection. A body has a Content-Length unless the headers have a transfer encoding."""
    parts = urlsplit(url)
    headers = dict(headers or {})
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        names = {name.lower() for name in headers}
        if "host" not in names:
            connection.putheader("Host", parts.netloc)
        if (body or method in ("PUT", "POST")) and not names & {"content-length", "transfer-encoding"}:
            connection.putheader("Content-Length", str(len(body)))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(body or None)
        response = connection.getresponse()
        answered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, answered, response.read())
    finally:
        connection.close()
