"""Addresses of targets, taken apart."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lakebed.core.errors import InvalidInput

_MAX_CHARS = 2048


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """A URL in its parts. The password is kept out of `repr` by whoever holds it; `where` may be told."""

    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None
    path: str
    query: str

    @property
    def where(self) -> str:
        """What errors may tell of it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"TargetAddress({self.where})"


def parse_address(
    url: str, argument: str, ports: dict[str, int], *, credentials: bool, path: bool = False, query: bool = False
) -> TargetAddress:
    """The parts of `url`, whose scheme is one of `ports`. Raises InvalidInput, naming the argument, never its value."""
    schemes = ", ".join(sorted(ports))
    if len(url) > _MAX_CHARS or any(not 0x21 <= ord(character) <= 0x7E for character in url):
        raise InvalidInput(f"{argument} has up to {_MAX_CHARS} visible ASCII characters", argument=argument)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"{argument} is not a URL", argument=argument) from error
    if parts.scheme not in ports or not host or port == 0:
        raise InvalidInput(f"{argument} is a URL that begins with one of: {schemes}", argument=argument)
    if not credentials and (parts.username is not None or parts.password is not None):
        raise InvalidInput(f"{argument} holds no credentials; they have fields of their own", argument=argument)
    if parts.fragment or (parts.query and not query) or (parts.path not in ("", "/") and not path):
        raise InvalidInput(f"{argument} has more parts than are used", argument=argument)
    return TargetAddress(
        parts.scheme,
        host,
        port or ports[parts.scheme],
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        parts.path,
        parts.query,
    )


def parse_brokers(brokers: str, argument: str) -> list[str]:
    """The `host:port` of a list with commas. Raises InvalidInput."""
    found = [one.strip() for one in brokers.split(",") if one.strip()]
    for one in found:
        host, colon, port = one.rpartition(":")
        if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65536 or "@" in one or "/" in one:
            raise InvalidInput(f"{argument} is a list of host:port, with commas", argument=argument, value=one[:80])
    if not found:
        raise InvalidInput(f"{argument} names nobody", argument=argument)
    return found


def check_one_of(value: str, argument: str, allowed: Collection[str]) -> str:
    """The value, if it is one of those. Raises InvalidInput."""
    if value not in allowed:
        raise InvalidInput(f"{argument} is one of {', '.join(allowed)}", argument=argument, value=value[:80])
    return value


def check_present(value: str, argument: str) -> str:
    """The value, if there is one, without control characters. Raises InvalidInput."""
    if not value or any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
        raise InvalidInput(f"{argument} is a text without control characters", argument=argument)
    return value


def check_pair(username: str | None, password: str | None) -> None:
    """Raises InvalidInput for one without the other."""
    if (username is None) != (password is None):
        missing = "password" if password is None else "username"
        raise InvalidInput("username and password come together", argument=missing)
