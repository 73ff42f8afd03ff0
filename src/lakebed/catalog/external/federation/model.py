"""The values of a connection: what was configured, the secrets apart from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from lakebed.catalog.model import Properties

from ..remote.model import RemoteAddress, RemoteAuth

KEYS_FOR: Final = "lakebed.credentials-for"
"""The property of a connection that says who is given keys to files which the other catalog hands out."""


class KeysFor(StrEnum):
    """Who is given keys that the other catalog hands out.

    They open what the connection may open: this server cannot make them open less. So by default only who may write a
    table's data gets them.
    """

    WRITERS = "writers"
    READERS = "readers"
    """Also who may only read: for connections whose own rights end there."""
    NOBODY = "nobody"


class ConnectionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What was configured."""

    uri: str
    remote_catalog: str = ""
    """Which of the catalogs that are served there; empty if it does not have to be told."""
    auth: RemoteAuth = RemoteAuth()
    keys_for: KeysFor = KeysFor.WRITERS
    properties: Properties = {}

    @property
    def address(self) -> RemoteAddress:
        """Where the other catalog is."""
        return RemoteAddress(self.uri, self.remote_catalog)


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection, as its row has it."""

    catalog: int
    """The id of the catalog that it is of."""
    name: str
    revision: str
    config: ConnectionConfig
    sealed: bytes | None = field(repr=False)
    created_ms: int
    updated_ms: int


encode_config = msgspec.json.Encoder().encode
decode_config = msgspec.json.Decoder(ConnectionConfig).decode
