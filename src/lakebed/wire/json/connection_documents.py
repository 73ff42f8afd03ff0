"""Connections to external catalogs, as the Polaris management API specifies them. Secrets are never returned.

Polaris's SigV4 connections assume a role. Connections with an access key are accepted too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from lakebed.catalog.external.federation.model import (
    CREDENTIALS_FOR,
    CatalogConnection,
    ConnectionConfig,
    CredentialRecipients,
)
from lakebed.catalog.external.remote.model import NO_SECRETS, AuthKind, RemoteAuth, RemoteSecrets
from lakebed.core.errors import InvalidInput, NotSupported
from lakebed.core.secrets import Secret

SUPPORTED_TYPE: Final = "ICEBERG_REST"
DEFAULT_SIGNING_NAME: Final = "execute-api"

_Text = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
_UNSUPPORTED_TYPES: Final = frozenset({"HADOOP", "HIVE", "BIGQUERY"})
_UNSUPPORTED_AUTHENTICATION: Final = frozenset({"IMPLICIT", "GCP"})
_KINDS: Final = {"OAUTH": AuthKind.OAUTH, "BEARER": AuthKind.BEARER, "SIGV4": AuthKind.SIGV4}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class AuthenticationDocument(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """`authenticationParameters`, of any type."""

    authentication_type: str
    token_uri: _Text = ""
    client_id: _Text = ""
    client_secret: str = ""
    scopes: list[_Text] = msgspec.field(default_factory=list)
    bearer_token: str = ""
    role_arn: _Text = ""
    role_session_name: _Text = ""
    external_id: _Text = ""
    signing_region: _Text = ""
    signing_name: _Text = ""
    session_policy: str = ""
    user_arn: _Text = ""
    access_key_id: _Text = ""
    secret_access_key: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        # The fields include secrets, and documents may appear in errors.
        return f"AuthenticationDocument(authentication_type={self.authentication_type!r})"

    @property
    def auth(self) -> RemoteAuth:
        """The authentication without secrets. Raises InvalidInput, NotSupported."""
        kind = _KINDS.get(self.authentication_type)
        if kind is None:
            if self.authentication_type in _UNSUPPORTED_AUTHENTICATION:
                raise NotSupported(
                    f"authentication type is not supported. authenticationType={self.authentication_type}"
                )
            raise InvalidInput(f"authenticationType must be one of {', '.join(_KINDS)}", argument="authenticationType")
        signs = kind is AuthKind.SIGV4
        return RemoteAuth(
            kind=kind,
            access_key_id=self.access_key_id,
            region=self.signing_region,
            service=(self.signing_name or DEFAULT_SIGNING_NAME) if signs else self.signing_name,
            role_arn=self.role_arn,
            role_session_name=self.role_session_name,
            external_id=self.external_id,
            session_policy=self.session_policy,
            client_id=self.client_id,
            token_uri=self.token_uri,
            scopes=tuple(self.scopes),
        )

    @property
    def secrets(self) -> RemoteSecrets:
        """The secrets."""
        return RemoteSecrets(
            Secret(self.bearer_token),
            Secret(self.secret_access_key),
            Secret(self.session_token),
            Secret(self.client_secret),
        )


class ConnectionDocument(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """`connectionConfigInfo`."""

    connection_type: str
    uri: _Text = ""
    remote_catalog_name: _Text = ""
    authentication_parameters: AuthenticationDocument | None = None
    service_identity: msgspec.Raw = msgspec.Raw(b"")
    """A field of responses, which requests may include."""
    properties: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def config(self) -> ConnectionConfig:
        """The configuration without secrets. Raises InvalidInput, NotSupported."""
        if self.connection_type in _UNSUPPORTED_TYPES:
            raise NotSupported(f"connection type is not supported. connectionType={self.connection_type}")
        if self.connection_type != SUPPORTED_TYPE:
            raise InvalidInput(f"connectionType must be {SUPPORTED_TYPE}", argument="connectionType")
        authentication = self.authentication_parameters
        stated = self.properties.get(CREDENTIALS_FOR, CredentialRecipients.WRITERS)
        if stated not in tuple(CredentialRecipients):
            raise InvalidInput(
                f"{CREDENTIALS_FOR} must be one of {', '.join(CredentialRecipients)}",
                argument=CREDENTIALS_FOR,
                value=stated[:80],
            )
        return ConnectionConfig(
            uri=self.uri,
            remote_catalog=self.remote_catalog_name,
            auth=RemoteAuth() if authentication is None else authentication.auth,
            credentials_for=CredentialRecipients(stated),
            properties=self.properties,
        )

    @property
    def secrets(self) -> RemoteSecrets:
        """The secrets."""
        return NO_SECRETS if self.authentication_parameters is None else self.authentication_parameters.secrets


def connection_document(connection: CatalogConnection) -> dict[str, Any]:
    """A connection, without its secrets."""
    config, auth = connection.config, connection.config.auth
    document: dict[str, Any] = {"connectionType": SUPPORTED_TYPE, "uri": config.uri}
    if config.remote_catalog:
        document["remoteCatalogName"] = config.remote_catalog
    if auth.kind is not AuthKind.NONE:
        stated: dict[str, object] = {
            "tokenUri": auth.token_uri,
            "clientId": auth.client_id,
            "scopes": list(auth.scopes),
            "roleArn": auth.role_arn,
            "roleSessionName": auth.role_session_name,
            "externalId": auth.external_id,
            "signingRegion": auth.region,
            "signingName": auth.service,
            "sessionPolicy": auth.session_policy,
            "accessKeyId": auth.access_key_id,
        }
        document["authenticationParameters"] = {
            "authenticationType": _NAMES[auth.kind],
            **{name: value for name, value in stated.items() if value},
        }
    document["properties"] = config.properties
    return document
