"""Buckets and keys that path-style requests could not reach, because an API has a route for their paths. Pure."""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import InvalidName

from .api_paths import CONSOLE_PREFIX, ApiPaths

_WAYS_OUT: Final = "use another name, or serve the APIs on a listener of their own (server.catalog_listen)"


class ReservedNames:
    """Refuses what an API's path would hide. Implements `Reservations`.

    The rule is the same for virtual-host-style requests, whose own paths collide with nothing: what one client has
    written, another must be able to read path-style, and a path-style `DELETE` of a key must never drop a table.
    """

    def __init__(self, paths: ApiPaths) -> None:
        self._paths = paths

    def check_bucket(self, name: str) -> None:
        """Raise InvalidName for a bucket whose own path is a route: listing it would be another request."""
        path = f"/{name}"
        if path == CONSOLE_PREFIX or self._paths.find(path):
            raise InvalidName(
                f"the name is reserved: {path} is a path of the server's own APIs; {_WAYS_OUT}. bucket={name}",
                value=name,
            )

    def check_key(self, bucket: str, key: str) -> None:
        """Raise InvalidName for a key whose path is a route."""
        if self._paths.has_root(bucket) and self._paths.find(f"/{bucket}/{key}"):
            raise InvalidName(
                f"the key is reserved in this bucket: /{bucket}/{key} is a path of the server's own APIs; {_WAYS_OUT}",
                argument="key",
                value=key,
            )
