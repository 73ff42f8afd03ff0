"""State of a connection between calls: the client's software, and the files it can read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lakebed.objects.model import Caller
from lakebed.streams.file_access import FileGrant

__all__ = ["ConnectionClient", "client_of"]

_LOSES_TOKENS: Final = "fluss-rust/"
"""The Rust client, and pyfluss, which uses it: it does not sign S3 requests with the session token. It names the token
`security_token`, which its S3 library does not know (1.0.0)."""

_GRANT_WAIT_SECONDS: Final = 5.0
_MAX_SOFTWARE_CHARS: Final = 100


class ConnectionClient:
    """The client of a connection. It requests file credentials on the connection that it fetches with."""

    __slots__ = ("_grants", "_no_request", "_requests", "software")

    def __init__(self) -> None:
        self.software = ""
        """Name and version of the client software."""
        self._grants: list[FileGrant] = []
        self._requests = 0
        """Credential requests being handled."""
        self._no_request = asyncio.Event()

    def set_software(self, name: str, version: str) -> None:
        """Set the client's software."""
        self.software = f"{name}/{version}"[:_MAX_SOFTWARE_CHARS]

    @property
    def takes_session_tokens(self) -> bool:
        """Whether the client can use temporary credentials."""
        return not self.software.startswith(_LOSES_TOKENS)

    @contextmanager
    def requesting_grant(self) -> Iterator[None]:
        """A context in which a credential request of the client is handled."""
        self._requests += 1
        self._no_request.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._no_request.set()

    def add_grant(self, grant: FileGrant, now_ms: int) -> None:
        """Add a grant. Earlier grants stay valid until they expire, because each scanner requests its own."""
        self._grants = [each for each in self._current(now_ms) if each != grant]
        self._grants.append(grant)

    @property
    def may_read_files(self) -> bool:
        """Whether the client has requested credentials."""
        return bool(self._grants or self._requests)

    async def reads_files(self, table_id: int, now_ms: int) -> bool:
        """Whether every current grant of the client covers the files of the table.

        A scanner requests credentials and records at the same time, so this waits briefly for a pending request.
        """
        if self._requests and not self._current(now_ms):
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRANT_WAIT_SECONDS):
                    await self._no_request.wait()
        current = self._current(now_ms)
        return bool(current) and all(each.covers(table_id) for each in current)

    def _current(self, now_ms: int) -> list[FileGrant]:
        return [each for each in self._grants if not each.is_expired(now_ms)]


def client_of(caller: Caller) -> ConnectionClient:
    """The client of the caller's connection; an unknown client without a connection."""
    return caller.connection if isinstance(caller.connection, ConnectionClient) else ConnectionClient()
