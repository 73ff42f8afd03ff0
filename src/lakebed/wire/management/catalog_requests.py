"""Requests about catalogs: documents in camel case, and checks for unsupported values."""

from __future__ import annotations

import msgspec

from lakebed.catalog.model import CatalogKind
from lakebed.core.errors import InvalidInput
from lakebed.wire.json.connection_documents import ConnectionDocument

from .unsupported import STORAGE_FIELDS, STORES


class StorageDocument(msgspec.Struct, rename="camel"):
    """The storage configuration of a catalog. Only S3 is supported."""

    storage_type: str
    allowed_locations: list[str] | None = None
    region: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    user_arn: str | None = None
    current_kms_key: str | None = None
    allowed_kms_keys: list[str] | None = None
    endpoint: str | None = None
    endpoint_internal: str | None = None
    sts_endpoint: str | None = None
    sts_unavailable: bool | None = None
    storage_name: str | None = None

    def locations(self, region: str) -> list[str] | None:
        """The allowed locations, if given. Raises InvalidInput, NotSupported for unsupported values.

        `pathStyleAccess` and `kmsUnavailable` are ignored: responses of the catalog have the settings of this server,
        and vended credentials use no KMS keys. Empty strings count as absent: some clients send one per unset option.
        """
        if self.storage_type in STORES:
            raise STORES[self.storage_type].error
        if self.storage_type != "S3":
            raise InvalidInput(f"unknown storageType: {self.storage_type[:80]!r}", argument="storageType")
        fields = msgspec.to_builtins(self)
        for field, unsupported in STORAGE_FIELDS.items():
            if fields.get(field):
                raise unsupported.error
        if self.region and self.region != region:
            raise InvalidInput(
                f"region differs from the region of the store. region={self.region} expected={region}",
                argument="region",
            )
        return self.allowed_locations


class CatalogDocument(msgspec.Struct, rename="camel"):
    """A catalog to create. The server sets further fields."""

    name: str
    properties: dict[str, str]
    storage_config_info: StorageDocument
    type: CatalogKind = CatalogKind.INTERNAL
    connection_config_info: ConnectionDocument | None = None


class NewCatalog(msgspec.Struct):
    """The body of createCatalog."""

    catalog: CatalogDocument

    def checked(self) -> CatalogDocument:
        """The catalog, checked. Raises InvalidInput."""
        if self.catalog.connection_config_info is not None and self.catalog.type is not CatalogKind.EXTERNAL:
            raise InvalidInput("a catalog with connectionConfigInfo must be of type EXTERNAL", argument="type")
        return self.catalog


class CatalogUpdate(msgspec.Struct, rename="camel"):
    """The body of updateCatalog."""

    current_entity_version: int
    properties: dict[str, str] | None = None
    storage_config_info: StorageDocument | None = None
