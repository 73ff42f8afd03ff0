"""Host and port of a listener."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from ..errors import InvalidInput


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host and a port. An empty host means every interface; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> HostPort:
        """Read `127.0.0.1:9000`, `[::1]:9000`, `localhost:9000` or `:9000`. Raises InvalidInput."""
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        well_formed = colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
        if not well_formed or (":" in host and not bracketed) or any(c.isspace() or c in "/@?#" for c in host):
            raise InvalidInput(f"expected an address such as 127.0.0.1:9000 or [::1]:9000. found={text[:80]!r}")
        if bracketed:
            host = host[1:-1]
            try:
                ipaddress.IPv6Address(host)
            except ValueError as error:
                raise InvalidInput(f"expected an IPv6 address in brackets. found={text[:80]!r}") from error
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. False for names other than `localhost`: they may resolve anywhere."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every interface: valid to listen on, but not to connect to."""
        if not self.host:
            return True
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def as_local(self) -> HostPort:
        """The address for clients on the same machine: loopback in place of every interface."""
        return HostPort({"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host), self.port)  # noqa: S104

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
