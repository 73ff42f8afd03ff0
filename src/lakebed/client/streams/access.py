"""The stream address of a server: given, from the environment, or the default port of its host."""

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
    """Address and credentials of streams. Can be pickled; its repr has no secrets."""

    address: str
    """`HOST:PORT`."""
    access_key_id: str
    secret_access_key: Secret

    def connect(self) -> StreamClient:
        """A client. It connects on the first call."""
        return StreamClient(self.address, self.access_key_id, self.secret_access_key)


def stream_access(
    access: ServerAccess, address: str | None = None, environ: Mapping[str, str] | None = None
) -> StreamAccess:
    """Access to the streams of a server with the same credentials. Raises InvalidSetting."""
    variables = os.environ if environ is None else environ
    found = address or variables.get(STREAMS_VARIABLE) or f"{urlsplit(access.endpoint).hostname}:{DEFAULT_PORT}"
    host, separator, port = found.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidSetting(f"expected the stream address as HOST:PORT. found={found!r}", argument="streams")
    return StreamAccess(found, access.access_key_id, access.secret_access_key)
