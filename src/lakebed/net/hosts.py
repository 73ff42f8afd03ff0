"""Allow-lists of hosts that the server may send requests to. Pure.

Checked when an address is configured and again when it is used, so that removing a host from the settings takes effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AllowedHosts:
    """The hosts of a setting; requests to all others are rejected.

    `catalog.example`, `catalog.example:8181`, `*.example` for all below it, or `*`. Without a port, all ports.
    """

    def __init__(self, patterns: Sequence[str], *, setting: str) -> None:
        """`setting` is the path of the setting, for error messages."""
        self._patterns = tuple(pattern.lower() for pattern in patterns)
        self._setting = setting

    @property
    def is_empty(self) -> bool:
        """Whether no host is allowed."""
        return not self._patterns

    def check(self, uri: str, *, argument: str = "uri") -> None:
        """Return if requests may be sent to the host of a URL. Raises InvalidInput."""
        parts = urlsplit(uri)
        host = (parts.hostname or "").lower()
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        if not any(_matches(pattern, host, port) for pattern in self._patterns):
            raise InvalidInput(
                f"host not allowed: an operator can add it to {self._setting}. host={host}:{port}",
                argument=argument,
            )


def _matches(pattern: str, host: str, port: int) -> bool:
    if pattern == "*":
        return True
    name, colon, stated = pattern.rpartition(":")
    if colon and stated.isdigit() and not name.endswith(":"):
        if int(stated) != port:
            return False
        pattern = name
    pattern = pattern.removeprefix("[").removesuffix("]")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern
