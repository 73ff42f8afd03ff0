"""Asks an Iceberg REST catalog where a table of its is."""

from __future__ import annotations

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.errors import InvalidInput
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http

from ..remote.client import RemoteCatalog, RemoteRequest
from ..remote.failures import refusal_by_kind
from ..remote.model import RemoteSecrets
from .model import BridgeConfig, ExternalTable


class _LogEntry(msgspec.Struct, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, rename="kebab"):
    table_uuid: str | None = None
    metadata_log: list[_LogEntry] = []


class _Table(msgspec.Struct, rename="kebab"):
    metadata: _Metadata
    metadata_location: str | None = None


class RestCatalog:
    """One table of one catalog, and how that is spoken to."""

    def __init__(
        self, http: Http, hosts: AllowedHosts, clock: Clock, config: BridgeConfig, secrets: RemoteSecrets
    ) -> None:
        """Raises ExternalCatalogError if the settings do not allow its host, or not any more."""
        self._config = config
        self._remote = RemoteCatalog.at(
            http, clock, config.address, config.auth, secrets, hosts=hosts, refused=refusal_by_kind
        )

    async def current(self) -> ExternalTable:
        """Where the table is. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput.

        Two requests: how the catalog wants to be spoken to, then the table. Redirects are not followed.
        """
        config, remote = self._config, self._remote
        namespace = await remote.namespace(config.external_namespace)
        path = ("namespaces", namespace, "tables", config.external_table)
        answer = await remote.ask(RemoteRequest("GET", path, {"snapshots": "refs"}))
        if answer.status != 200:
            raise refusal_by_kind(answer, remote.host)
        try:
            found = msgspec.json.decode(answer.body, type=_Table)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput("the other catalog's answer is not what the protocol has") from error
        if not found.metadata_location:
            raise InvalidInput("the other catalog does not say where the table's metadata file is")
        log = frozenset(entry.metadata_file for entry in found.metadata.metadata_log)
        return ExternalTable(found.metadata_location, found.metadata.table_uuid, log)
