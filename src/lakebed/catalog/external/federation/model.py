"""Values of federated catalogs: their connections, the catalog and its entries as one request addresses them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import Catalog, EntryKind, Properties
from lakebed.core.errors import CommitConflict, LakebedError, NoSuchTable, NoSuchView

from ..remote.client import RemoteCatalog
from ..remote.errors import StatusMapping
from ..remote.model import RemoteAddress, RemoteAuth

CREDENTIALS_FOR: Final = "lakebed.credentials-for"
"""The property of a connection for the callers that receive credentials vended by the external catalog."""

_MISSING: Final[dict[EntryKind, type[LakebedError]]] = {EntryKind.TABLE: NoSuchTable, EntryKind.VIEW: NoSuchView}


class CredentialRecipients(StrEnum):
    """Callers that receive credentials vended by the external catalog.

    The credentials permit what the connection permits, and this server cannot narrow them. So by default only callers
    with permission to write a table's data receive them.
    """

    WRITERS = "writers"
    READERS = "readers"
    """Also callers that may only read: for connections that may themselves only read."""
    NOBODY = "nobody"


class ConnectionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a connection. Stored in rows."""

    uri: str
    remote_catalog: str = ""
    """The `warehouse` parameter for the external catalog; empty for none."""
    auth: RemoteAuth = RemoteAuth()
    credentials_for: CredentialRecipients = msgspec.field(default=CredentialRecipients.WRITERS, name="keys_for")
    properties: Properties = {}

    @property
    def address(self) -> RemoteAddress:
        """The address of the external catalog."""
        return RemoteAddress(self.uri, self.remote_catalog)


@dataclass(frozen=True, slots=True)
class CatalogConnection:
    """One connection, as its row has it."""

    catalog: int
    """The id of its catalog."""
    name: str
    revision: str
    config: ConnectionConfig
    sealed: bytes | None = field(repr=False)
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class FederatedCatalog:
    """A federated catalog, resolved for one request."""

    entity: Catalog
    """The catalog on this server."""
    connection: CatalogConnection
    remote: RemoteCatalog

    @property
    def id(self) -> int:
        """Its id on this server."""
        return self.connection.catalog

    @property
    def name(self) -> str:
        """Its name on this server."""
        return self.connection.name


@dataclass(frozen=True, slots=True)
class FederatedEntry:
    """A table or view in a federated catalog, by name."""

    catalog: FederatedCatalog
    identifier: Identifier
    kind: EntryKind

    @property
    def endpoint(self) -> str:
        """The path of its endpoints, as the Iceberg REST specification spells it."""
        return f"/v1/{{prefix}}/namespaces/{{namespace}}/{self.kind}s/{{{self.kind}}}"

    @property
    def status_mapping(self) -> StatusMapping:
        """The errors of requests to it."""
        return StatusMapping(_MISSING[self.kind], CommitConflict)

    async def path(self, *further: str) -> tuple[str, ...]:
        """Its path in the external catalog. Raises InvalidName."""
        namespace = await self.catalog.remote.namespace(self.identifier.namespace)
        return ("namespaces", namespace, f"{self.kind}s", self.identifier.name, *further)


encode_config = msgspec.json.Encoder().encode
decode_config = msgspec.json.Decoder(ConnectionConfig).decode
