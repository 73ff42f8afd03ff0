"""The catalogs behind this one, each spoken to by one client for as long as its connection stays as it is."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from lakebed.core.clock import Clock
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http

from ..remote.authentication import check_hosts
from ..remote.client import TIMEOUT_SECONDS, RemoteCatalog
from ..remote.model import RemoteSecrets
from .model import Connection, ConnectionConfig

_REMEMBERED: Final = 256


class Remotes:
    """Clients by the revision of their connection. Used from one event loop."""

    def __init__(
        self, http: Http, clock: Clock, hosts: AllowedHosts, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._http = http
        self._clock = clock
        self._hosts = hosts
        self._timeout_seconds = timeout_seconds
        self._known: OrderedDict[str, RemoteCatalog] = OrderedDict()

    def check_hosts(self, config: ConnectionConfig) -> None:
        """Return if all that the connection leads to may be spoken to. Raises InvalidInput."""
        check_hosts(self._hosts, config.address, config.auth, uri_field="tokenUri")

    def known(self, connection: Connection) -> RemoteCatalog | None:
        """The client of a connection that was used before: its secrets need not be opened again."""
        found = self._known.get(connection.revision)
        if found is not None:
            self._known.move_to_end(connection.revision)
        return found

    def open(self, connection: Connection, secrets: RemoteSecrets) -> RemoteCatalog:
        """A client. Raises ExternalCatalogError if the settings do not allow the host any more."""
        config = connection.config
        remote = RemoteCatalog.at(
            self._http,
            self._clock,
            config.address,
            config.auth,
            secrets,
            hosts=self._hosts,
            timeout_seconds=self._timeout_seconds,
        )
        self._known[connection.revision] = remote
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return remote
