"""Creates the listening sockets of a server."""

from __future__ import annotations

import errno
import resource
import socket
from typing import Final

from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import HostPort

_BACKLOG: Final = 1024
_DESCRIPTORS: Final = 65_536


def listen(setting: str, flag: str, address: HostPort) -> tuple[socket.socket, HostPort]:
    """A listening socket and its address, with the port that the system chose for port 0."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        hint = f"the port is in use; choose another with {flag}" if error.errno == errno.EADDRINUSE else error.strerror
        raise InvalidSetting(f"{setting}: cannot listen. address={address} reason={hint}") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener, HostPort(address.host, listener.getsockname()[1])


def allow_many_descriptors() -> None:
    """Raise the soft limit of open files: a connection takes up to three descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
