"""Reads the current metadata location of a table from an external Iceberg REST catalog."""

from __future__ import annotations

import msgspec

from lakebed.core.errors import InvalidInput

from ..remote.client import RemoteCatalogs, RemoteRequest, decode_response
from ..remote.errors import redacted_error
from ..remote.model import RemoteSecrets
from .model import BridgeConfig, ExternalTable


class _LogEntry(msgspec.Struct, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, rename="kebab"):
    table_uuid: str | None = None
    metadata_log: list[_LogEntry] = []


class _TableDocument(msgspec.Struct, rename="kebab"):
    metadata: _Metadata
    metadata_location: str | None = None


class RestCatalogTable:
    """One table of an external catalog."""

    def __init__(self, remotes: RemoteCatalogs, config: BridgeConfig, secrets: RemoteSecrets) -> None:
        """Raises ExternalCatalogError if the settings do not allow its host any more."""
        self._config = config
        self._remote = remotes.open(config.address, config.auth, secrets, config_error=redacted_error)

    async def current(self) -> ExternalTable:
        """The table's current state. Raises Unavailable, Throttled, AccessDenied, NotFound, InvalidInput.

        Sends two requests: for the catalog's configuration and for the table. Redirects are not followed.
        """
        config, remote = self._config, self._remote
        namespace = await remote.namespace(config.external_namespace)
        path = ("namespaces", namespace, "tables", config.external_table)
        response = await remote.send(RemoteRequest("GET", path, {"snapshots": "refs"}))
        if response.status != 200:
            raise redacted_error(response, remote.host)
        table = decode_response(response, _TableDocument, remote.host, error=InvalidInput)
        if not table.metadata_location:
            raise InvalidInput(f"the external catalog returned no metadata-location. host={remote.host}")
        log = frozenset(entry.metadata_file for entry in table.metadata.metadata_log)
        return ExternalTable(table.metadata_location, table.metadata.table_uuid, log)
