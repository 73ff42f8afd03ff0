"""Which other catalogs this server speaks to at all, whoever asks for it: those that the settings name, and no others.

One rule for bridges and connections, asked when either is configured and again when it is used: a host that an operator
takes out of the settings is not spoken to any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput

from .authentication import token_uri_of
from .model import AuthKind, RemoteAddress, RemoteAuth

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AllowedHosts:
    """The hosts of `federation.hosts`: what they do not name is refused.

    `catalog.example`, `catalog.example:8181`, `*.example` for all below it, or `*`. Without a port, all ports.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(pattern.lower() for pattern in patterns)

    def check_catalog(self, address: RemoteAddress, auth: RemoteAuth, *, named: str = "token-uri") -> None:
        """Return if all that a catalog makes this server speak to is named. Raises InvalidInput.

        `named` is what the caller calls the place that tokens are asked for at.
        """
        self.check(address.uri)
        if auth.kind is AuthKind.OAUTH:
            self.check(token_uri_of(address, auth), argument=named)

    def check(self, uri: str, *, argument: str = "uri") -> None:
        """Return if the host of a URL may be spoken to. Raises InvalidInput."""
        parts = urlsplit(uri)
        host = (parts.hostname or "").lower()
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        if not any(_matches(pattern, host, port) for pattern in self._patterns):
            raise InvalidInput(
                f"this server does not speak to that host: an operator adds it to federation.hosts. host={host}:{port}",
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
