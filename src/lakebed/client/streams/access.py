"""Where the streams of a server are: said, else by the environment, else on its host at the port that is usual."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret

from ..access import ServerAccess
from .client import StreamClient

__all__ = ["DEFAULT_PORT", "STREAMS_VARIABLE", "StreamAccess", "stream_access"]

STREAMS_VARIABLE: Final = "LAKEBED_STREAMS"
DEFAULT_PORT: Final = 9123


@dataclass(frozen=True, slots=True)
class StreamAccess:
    """How a client reaches streams. Can be sent to other processes; shows no secret."""

    address: str
    """`HOST:PORT`."""
    access_key_id: str
    secret_access_key: Secret

    def connect(self) -> StreamClient:
        """A client, which opens nothing yet."""
        return StreamClient(self.address, self.access_key_id, self.secret_access_key)


def stream_access(
    access: ServerAccess, address: str | None = None, environ: Mapping[str, str] | None = None
) -> StreamAccess:
    """The streams of a server, with the keys that are used with it. Raises InvalidSetting."""
    host_environment = os.environ if environ is None else environ
    found = address or host_environment.get(STREAMS_VARIABLE) or f"{urlsplit(access.endpoint).hostname}:{DEFAULT_PORT}"
    host, separator, port = found.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidSetting(f"streams are at HOST:PORT. found={found!r}", argument="streams")
    return StreamAccess(found, access.access_key_id, access.secret_access_key)
