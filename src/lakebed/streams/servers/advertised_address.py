"""Determines the address that other servers redirect stream clients to, and checks it at start."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Final

from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import HostPort, Settings

__all__ = ["advertised_address"]

_LOOPBACK_NAME: Final = re.compile(r"localhost[46]?(\..*)?|.*\.localhost|ip6-(localhost|loopback)", re.IGNORECASE)
"""Loopback names, which resolve on every machine."""


def advertised_address(
    settings: Settings,
    port: int,
    *,
    machine_name: Callable[[], str] = socket.getfqdn,
    resolve: Callable[[str, int], object] = socket.getaddrinfo,
) -> HostPort:
    """`streams.advertise`; otherwise the host of `streams.listen`; if that is a wildcard, this machine's name.

    `port` is the port that the server listens on. Raises InvalidSetting for an address that clients cannot connect to.
    Derived addresses are checked only on PostgreSQL: with SQLite there is no other server.
    """
    configured = settings.streams.advertise
    if configured is not None:
        _check("streams.advertise", configured, resolve)
        return configured
    listen = settings.streams.listen
    if listen is not None and not listen.is_wildcard:
        return HostPort(listen.host, port)
    derived = HostPort(machine_name(), port)
    if settings.meta.is_postgres:
        if derived.is_loopback or _LOOPBACK_NAME.fullmatch(derived.host):
            raise InvalidSetting(
                "streams.advertise: not set, streams.listen is a wildcard, and this machine's name is "
                f"{derived.host}: other servers cannot redirect clients there. Set the address that clients reach this "
                f"server by: streams.advertise = HOST:{port}"
            )
        _check("streams.advertise: not set, and this machine's name", derived, resolve)
    return derived


def _check(source: str, address: HostPort, resolve: Callable[[str, int], object]) -> None:
    try:
        resolve(address.host, address.port)
    except OSError as error:
        raise InvalidSetting(
            f"{source}: the name does not resolve, so clients cannot be redirected here. Set streams.advertise to a "
            f"name or address that clients reach this server by. address={address} reason={error}"
        ) from error
