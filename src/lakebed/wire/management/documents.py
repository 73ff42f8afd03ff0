"""Documents of the management API, in camel case as Polaris specifies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from lakebed.catalog.catalogs.base_locations import BASE_LOCATION
from lakebed.catalog.external.federation.model import CatalogConnection
from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.core.errors import InvalidInput
from lakebed.governance.rbac.model import (
    CatalogRole,
    GrantTarget,
    ManagedCatalog,
    ManagedPrincipal,
    PrincipalRole,
    RoleGrant,
)
from lakebed.governance.rbac.privileges import GrantKind, Privilege, privilege_named
from lakebed.wire.http.message import Response
from lakebed.wire.json.connection_documents import connection_document
from lakebed.wire.json.errors import JSON

_encode = msgspec.json.Encoder().encode


class NamedDocument(msgspec.Struct):
    """An entity to create, or a reference by name. The server sets further fields."""

    name: str
    properties: dict[str, str] | None = None
    federated: bool = False


class PrincipalRoleDocument(msgspec.Struct, rename="camel"):
    """The body of createPrincipalRole and assignPrincipalRole."""

    principal_role: NamedDocument


class CatalogRoleDocument(msgspec.Struct, rename="camel"):
    """The body of createCatalogRole and assignCatalogRoleToPrincipalRole."""

    catalog_role: NamedDocument


class UpdateDocument(msgspec.Struct, rename="camel"):
    """New properties, which replace the current ones."""

    current_entity_version: int
    properties: dict[str, str]


class GrantDocument(msgspec.Struct, rename="camel"):
    """A privilege on a securable."""

    type: GrantKind
    privilege: str
    namespace: list[str] | None = None
    table_name: str | None = None
    view_name: str | None = None
    policy_name: str | None = None

    @property
    def target(self) -> GrantTarget:
        """The securable. Raises InvalidInput for a name that does not fit its type, or is missing."""
        names = {
            GrantKind.TABLE: self.table_name,
            GrantKind.VIEW: self.view_name,
            GrantKind.POLICY: self.policy_name,
        }
        for kind, name in names.items():
            if name is not None and kind is not self.type:
                raise InvalidInput(f"a grant on a {self.type} has no {kind}Name", argument=f"{kind}Name")
        if self.namespace and self.type is GrantKind.CATALOG:
            raise InvalidInput("a grant on a catalog has no namespace", argument="namespace")
        return GrantTarget(self.type, tuple(self.namespace or ()), names.get(self.type) or "")

    @property
    def parsed_privilege(self) -> Privilege:
        """The privilege. Raises InvalidInput."""
        return privilege_named(self.privilege)


class GrantRequest(msgspec.Struct):
    """The body of addGrantToCatalogRole and revokeGrantFromCatalogRole."""

    grant: GrantDocument


_NAME_FIELDS: Final[Mapping[GrantKind, str]] = {
    GrantKind.TABLE: "tableName",
    GrantKind.VIEW: "viewName",
    GrantKind.POLICY: "policyName",
}


def grant_document(grant: RoleGrant) -> dict[str, Any]:
    """A grant of a catalog role."""
    target = grant.target
    document: dict[str, Any] = {"type": target.kind, "privilege": grant.privilege.name}
    if target.kind is not GrantKind.CATALOG:
        document["namespace"] = target.namespace
    if target.kind in _NAME_FIELDS:
        document[_NAME_FIELDS[target.kind]] = target.name
    return document


def principal_document(principal: ManagedPrincipal) -> dict[str, Any]:
    """A principal."""
    document: dict[str, Any] = {"name": principal.name}
    if principal.client_id is not None:
        document["clientId"] = principal.client_id
    document |= {"properties": principal.properties, "entityVersion": principal.version}
    if principal.created_ms is not None:
        document["createTimestamp"] = principal.created_ms
    if principal.updated_ms is not None:
        document["lastUpdateTimestamp"] = principal.updated_ms
    return document


def principal_role_document(role: PrincipalRole) -> dict[str, Any]:
    """A principal role."""
    return _role_document(role) | {"federated": role.federated}


def catalog_role_document(role: CatalogRole) -> dict[str, Any]:
    """A catalog role."""
    return _role_document(role)


def catalog_document(
    catalog: ManagedCatalog, connection: CatalogConnection | None = None, storage: StorageProfile | None = None
) -> dict[str, Any]:
    """A catalog, with its connection if it is federated, and its storage profile if it has external storage."""
    connected = {} if connection is None else {"connectionConfigInfo": connection_document(connection)}
    return connected | {
        "type": catalog.kind,
        "name": catalog.name,
        "properties": {**catalog.properties, BASE_LOCATION: catalog.base_location},
        "createTimestamp": catalog.created_ms,
        "lastUpdateTimestamp": catalog.updated_ms,
        "entityVersion": catalog.version,
        "storageConfigInfo": {
            "storageType": "S3",
            "allowedLocations": catalog.allowed_locations,
            **({"region": catalog.region} if storage is None else _storage_fields(storage)),
        },
    }


def _storage_fields(storage: StorageProfile) -> dict[str, Any]:
    """The fields of a storage profile that are set. It contains no secrets."""
    fields: dict[str, Any] = {
        "region": storage.region,
        "endpoint": storage.endpoint,
        "endpointInternal": storage.endpoint_internal,
        "stsEndpoint": storage.sts_endpoint,
        "stsUnavailable": storage.sts_unavailable,
        "roleArn": storage.role_arn,
        "externalId": storage.external_id,
        "userArn": storage.user_arn,
        "currentKmsKey": storage.current_kms_key,
        "allowedKmsKeys": list(storage.allowed_kms_keys),
        "encryptionKeys": list(storage.encryption_keys),
        "decryptionKeys": list(storage.decryption_keys),
        "kmsUnavailable": storage.kms_unavailable,
        "storageName": storage.credentials,
    }
    return {name: value for name, value in fields.items() if value} | {"pathStyleAccess": storage.uses_path_style}


def created(document: object = None) -> Response:
    """201 Created, with the created entity if there is a document."""
    return Response(201, []) if document is None else Response(201, [JSON], _encode(document))


def _role_document(role: PrincipalRole | CatalogRole) -> dict[str, Any]:
    return {
        "name": role.name,
        "properties": role.properties,
        "createTimestamp": role.created_ms,
        "lastUpdateTimestamp": role.updated_ms,
        "entityVersion": role.version,
    }
