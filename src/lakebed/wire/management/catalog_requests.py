"""Requests about catalogs: documents in camel case, and checks for unsupported values."""

from __future__ import annotations

import msgspec

from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.catalog.model import CatalogKind
from lakebed.core.errors import InvalidInput
from lakebed.wire.json.connection_documents import ConnectionDocument

from .unsupported import STORAGE_FIELDS, STORES


class StorageDocument(msgspec.Struct, rename="camel"):
    """The storage configuration of a catalog: a bucket of this server, or of an external S3 store."""

    storage_type: str
    allowed_locations: list[str] | None = None
    region: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    user_arn: str | None = None
    current_kms_key: str | None = None
    allowed_kms_keys: list[str] | None = None
    encryption_keys: list[str] | None = None
    decryption_keys: list[str] | None = None
    endpoint: str | None = None
    endpoint_internal: str | None = None
    sts_endpoint: str | None = None
    sts_unavailable: bool | None = None
    path_style_access: bool | None = None
    kms_unavailable: bool | None = None
    storage_name: str | None = None

    @property
    def is_external(self) -> bool:
        """Whether it describes another object store than this server's."""
        return any((self.endpoint, self.endpoint_internal, self.sts_endpoint, self.role_arn, self.storage_name))

    def locations(self) -> list[str] | None:
        """The allowed locations, if given. Raises InvalidInput, NotSupported for other stores than S3."""
        if self.storage_type in STORES:
            raise STORES[self.storage_type].error
        if self.storage_type != "S3":
            raise InvalidInput(f"unknown storageType: {self.storage_type[:80]!r}", argument="storageType")
        return self.allowed_locations

    def profile(self, region: str) -> StorageProfile | None:
        """The storage profile; None for a bucket of this server, which is in `region`.

        Empty strings count as absent: some clients send one per unset option. In a bucket of this server,
        `pathStyleAccess` and `kmsUnavailable` have no effect: clients get the settings of this server. Raises
        InvalidInput, NotSupported for fields that have none either.
        """
        if self.is_external:
            return StorageProfile(
                region=self.region or "",
                endpoint=(self.endpoint or "").rstrip("/"),
                endpoint_internal=(self.endpoint_internal or "").rstrip("/"),
                sts_endpoint=(self.sts_endpoint or "").rstrip("/"),
                sts_unavailable=bool(self.sts_unavailable),
                path_style=self.path_style_access,
                role_arn=self.role_arn or "",
                external_id=self.external_id or "",
                user_arn=self.user_arn or "",
                current_kms_key=self.current_kms_key or "",
                allowed_kms_keys=tuple(self.allowed_kms_keys or ()),
                encryption_keys=tuple(self.encryption_keys or ()),
                decryption_keys=tuple(self.decryption_keys or ()),
                kms_unavailable=bool(self.kms_unavailable),
                credentials=self.storage_name or "",
            )
        fields = msgspec.to_builtins(self)
        for field, unsupported in STORAGE_FIELDS.items():
            if fields.get(field):
                raise unsupported.error
        if self.region and self.region != region:
            raise InvalidInput(
                f"region differs from the region of the store. region={self.region} expected={region}",
                argument="region",
            )
        return None


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
