"""Reads objects for jobs, in the version that an event named."""

from __future__ import annotations

from typing import Final

from lakebed.core.sigv4 import encode_segment

from .connection import ServerConnection

PIECE_BYTES: Final = 16 * 1024 * 1024


class Objects:
    """Reads objects of a server."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def read(self, source: str, size: int, *, etag: str = "", version: str = "") -> bytes:
        """Read the object at `<bucket>/<key>` with this size and, if given, ETag and version.

        Sends one GET per 16 MiB. Raises NotFound, PreconditionFailed if the object was replaced.
        """
        path = "/" + "/".join(encode_segment(part) for part in source.split("/"))
        query = {"versionId": version} if version else {}
        condition = {"if-match": f'"{etag}"'} if etag else {}
        pieces: list[bytes] = []
        for start in range(0, size, PIECE_BYTES):
            headers = {**condition, "range": f"bytes={start}-{min(start + PIECE_BYTES, size) - 1}"}
            pieces.append(self._connection.call("GET", path, query=query, headers=headers).body)
        return b"".join(pieces)
