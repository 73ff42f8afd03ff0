"""Parsing and checks of addresses and other settings of targets."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from lakebed.core.errors import InvalidInput
from lakebed.net.tls import TlsFiles

_MAX_CHARS = 2048


@dataclass(frozen=True, slots=True)
class TargetAddress:
    """A parsed URL. Its `repr` contains no credentials."""

    scheme: str
    host: str
    port: int
    username: str | None
    password: str | None
    path: str
    query: str

    @property
    def where(self) -> str:
        """The URL without credentials, for error messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"TargetAddress({self.where})"


def parse_address(
    url: str, argument: str, ports: dict[str, int], *, credentials: bool, path: bool = False, query: bool = False
) -> TargetAddress:
    """Parse `url`; its scheme must be in `ports`. Raises InvalidInput without the value, which may have a password."""
    schemes = ", ".join(sorted(ports))
    if len(url) > _MAX_CHARS or any(not 0x21 <= ord(character) <= 0x7E for character in url):
        raise InvalidInput(f"{argument} must have at most {_MAX_CHARS} visible ASCII characters", argument=argument)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"{argument} is not a URL", argument=argument) from error
    if parts.scheme not in ports or not host or port == 0:
        raise InvalidInput(f"{argument} must be a URL with one of the schemes: {schemes}", argument=argument)
    if not credentials and (parts.username is not None or parts.password is not None):
        raise InvalidInput(f"{argument} must not contain credentials: use the separate fields", argument=argument)
    if parts.fragment or (parts.query and not query) or (parts.path not in ("", "/") and not path):
        raise InvalidInput(f"{argument} has unsupported parts: path, query or fragment", argument=argument)
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
    """Parse a comma-separated list of `host:port`. Raises InvalidInput."""
    found = [broker.strip() for broker in brokers.split(",") if broker.strip()]
    for broker in found:
        host, colon, port = broker.rpartition(":")
        is_port = port.isdecimal() and 0 < int(port) < 65536
        if not host or not colon or not is_port or "@" in broker or "/" in broker:
            raise InvalidInput(
                f"{argument} must be a comma-separated list of host:port", argument=argument, value=broker[:80]
            )
    if not found:
        raise InvalidInput(f"{argument} must name at least one broker", argument=argument)
    return found


def check_one_of(value: str, argument: str, allowed: Collection[str]) -> str:
    """The value, if it is allowed. Raises InvalidInput."""
    if value not in allowed:
        raise InvalidInput(f"{argument} must be one of {', '.join(allowed)}", argument=argument, value=value[:80])
    return value


def check_present(value: str, argument: str) -> str:
    """The value, if it is not empty and has no control characters. Raises InvalidInput."""
    if not value or any(ord(character) < 0x20 or ord(character) == 0x7F for character in value):
        raise InvalidInput(f"{argument} must be a non-empty text without control characters", argument=argument)
    return value


def check_pair(username: str | None, password: str | None) -> None:
    """Return if both or neither are given. Raises InvalidInput."""
    if (username is None) != (password is None):
        missing = "password" if password is None else "username"
        raise InvalidInput("username and password must be given together", argument=missing)


def check_tls_files(files: TlsFiles, *, encrypted: bool, argument: str, expected: str) -> None:
    """Return if the TLS files are valid, and given only for encrypted connections. Raises InvalidInput."""
    if files.are_named and not encrypted:
        raise InvalidInput(f"TLS files require {expected}", argument=argument)
    files.validate()
