"""What is remembered of a connection from one call to the next: what its client is, and which files it can read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lakebed.objects.model import Caller
from lakebed.streams.file_access import FileGrant

__all__ = ["ConnectionClient", "client_of"]

_LOSES_TOKENS: Final = "fluss-rust/"
"""The Rust client, and pyfluss, which is made of it: the session token of keys to S3 is not among what it signs with.
It names it `security_token`, which its library for S3 does not know (1.0.0)."""

_PATIENCE_SECONDS: Final = 5.0
_MAX_SOFTWARE_CHARS: Final = 100


class ConnectionClient:
    """One connection's client. It asks for keys on the connection by which it fetches, as it knows one server."""

    __slots__ = ("_asking", "_grants", "_settled", "software")

    def __init__(self) -> None:
        self.software = ""
        """What it calls itself, and its version."""
        self._grants: list[FileGrant] = []
        self._asking = 0
        self._settled = asyncio.Event()

    def is_called(self, name: str, version: str) -> None:
        """It says what it is."""
        self.software = f"{name}/{version}"[:_MAX_SOFTWARE_CHARS]

    @property
    def takes_session_tokens(self) -> bool:
        """Whether it can use temporary keys."""
        return not self.software.startswith(_LOSES_TOKENS)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """It is being given something to read files with."""
        self._asking += 1
        self._settled.clear()
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._settled.set()

    def take(self, grant: FileGrant, now_ms: int) -> None:
        """It was given that. What it was given before counts until it is over: its scanners each ask for themselves."""
        self._grants = [each for each in self._current(now_ms) if each != grant]
        self._grants.append(grant)

    @property
    def may_read_files(self) -> bool:
        """Whether it asked for that at all."""
        return bool(self._grants or self._asking)

    async def reads_files(self, table_id: int, now_ms: int) -> bool:
        """Whether it can read files of the table now, whichever of its grants it does it with.

        A scanner asks for keys and for records at once: what it is being given is waited for, not long.
        """
        if self._asking and not self._current(now_ms):
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_SECONDS):
                    await self._settled.wait()
        current = self._current(now_ms)
        return bool(current) and all(each.opens(table_id) for each in current)

    def _current(self, now_ms: int) -> list[FileGrant]:
        return [each for each in self._grants if not each.is_expired(now_ms)]


def client_of(caller: Caller) -> ConnectionClient:
    """Who is on the caller's connection; for who has none, somebody of whom nothing is known."""
    return caller.connection if isinstance(caller.connection, ConnectionClient) else ConnectionClient()
