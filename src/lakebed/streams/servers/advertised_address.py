"""Decides the address of a stream server that other servers send clients to, and checks it at start."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Final

from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import HostPort, Settings

__all__ = ["advertised_address"]

_LOOPBACK_NAME: Final = re.compile(r"localhost[46]?(\..*)?|.*\.localhost|ip6-(localhost|loopback)", re.IGNORECASE)
"""Names that every machine has for itself."""


def advertised_address(
    settings: Settings,
    port: int,
    *,
    machine_name: Callable[[], str] = socket.getfqdn,
    resolve: Callable[[str, int], object] = socket.getaddrinfo,
) -> HostPort:
    """`streams.advertise`; else where `streams.listen` is; else, where that is every interface, this machine's name.

    `port` is the one that the server listens on. Raises InvalidSetting for an address that no client can connect to.
    What was only derived is not looked at where no other server can need it.
    """
    said = settings.streams.advertise
    if said is not None:
        _check("streams.advertise", said, resolve)
        return said
    listen = settings.streams.listen
    if listen is not None and not listen.is_wildcard:
        return HostPort(listen.host, port)
    derived = HostPort(machine_name(), port)
    if settings.meta.is_postgres:
        if derived.is_loopback or _LOOPBACK_NAME.fullmatch(derived.host):
            raise InvalidSetting(
                "streams.advertise: not set, streams.listen is every interface, and this machine's name is "
                f"{derived.host}: other servers cannot send clients there. Set the address by which clients reach this "
                f"server: streams.advertise = HOST:{port}"
            )
        _check("streams.advertise: not set, and this machine's name", derived, resolve)
    return derived


def _check(what: str, address: HostPort, resolve: Callable[[str, int], object]) -> None:
    try:
        resolve(address.host, address.port)
    except OSError as error:
        raise InvalidSetting(
            f"{what}: the name does not resolve, so clients could not be sent here. Set streams.advertise to a name or "
            f"an address by which they reach this server. address={address} reason={error}"
        ) from error
