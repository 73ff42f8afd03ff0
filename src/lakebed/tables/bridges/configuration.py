"""Which configurations of a bridge make sense. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput

from ..files import parse_location
from ..metadata.builder import check_uuid
from ..properties import check_properties
from .model import AuthKind, BridgeConfig, BridgeSecrets, CatalogKind, SyncMode

MIN_POLL_SECONDS: Final = 1
MAX_POLL_SECONDS: Final = 7 * 86_400
MAX_NAME_CHARS: Final = 512

_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f/\\]")
_WORD: Final = re.compile(r"[A-Za-z0-9._:+=,@-]{1,256}")
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]{1,16384}")


def check_config(config: BridgeConfig, secrets: BridgeSecrets) -> None:
    """Return if a bridge can be configured so. Raises InvalidInput that names the field."""
    _check_names(config)
    check_properties(config.properties)
    if config.external_table_uuid is not None:
        check_uuid(config.external_table_uuid)
    if config.metadata_location is not None:
        parse_location(config.metadata_location)
    if config.sync_mode is SyncMode.POLL and not config.catalog.can_be_asked:
        raise InvalidInput(
            f"a {config.catalog} is followed on an operator's word only; where it speaks the Iceberg REST protocol, it"
            f" can be polled as {CatalogKind.REST}",
            argument="sync-mode",
        )
    if not MIN_POLL_SECONDS <= config.poll_seconds <= MAX_POLL_SECONDS:
        raise InvalidInput(
            f"poll-interval-seconds is from {MIN_POLL_SECONDS} to {MAX_POLL_SECONDS}", argument="poll-interval-seconds"
        )
    if config.catalog is CatalogKind.REST:
        _check_uri(config)
    elif config.uri or config.warehouse or config.auth.kind is not AuthKind.NONE:
        raise InvalidInput(f"uri, warehouse and auth are of {CatalogKind.REST} only", argument="uri")
    if config.catalog is CatalogKind.FOLDER:
        if not parse_location(config.folder).key.strip("/"):
            raise InvalidInput("metadata-folder names a folder in a bucket", argument="metadata-folder")
    elif config.folder:
        raise InvalidInput(f"metadata-folder is of {CatalogKind.FOLDER} only", argument="metadata-folder")
    _check_auth(config, secrets)


def _check_names(config: BridgeConfig) -> None:
    if config.catalog is not CatalogKind.FOLDER and not (config.external_namespace and config.external_table):
        raise InvalidInput("external-namespace and external-table are missing", argument="external-table")
    named = [("external-namespace", level) for level in config.external_namespace]
    if config.external_table:
        named.append(("external-table", config.external_table))
    if config.external_catalog_id is not None:
        named.append(("external-catalog-id", config.external_catalog_id))
    for field, value in named:
        if not 0 < len(value) <= MAX_NAME_CHARS or _FORBIDDEN.search(value):
            raise InvalidInput(
                f"{field} has 1 to {MAX_NAME_CHARS} characters, none of them a slash or a control character",
                argument=field,
            )
    token = config.external_version_token
    if token is not None and (not 0 < len(token) <= MAX_NAME_CHARS or "\0" in token):
        raise InvalidInput(
            f"external-version-token has 1 to {MAX_NAME_CHARS} characters", argument="external-version-token"
        )


def _check_uri(config: BridgeConfig) -> None:
    if not config.uri:
        raise InvalidInput(f"an {CatalogKind.REST} catalog has a uri", argument="uri")
    try:
        parts = urlsplit(config.uri)
        port = parts.port
    except ValueError as error:
        raise InvalidInput("uri is not a URL", argument="uri") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput("uri is the http or https URL of a catalog", argument="uri")
    if parts.username is not None or parts.password is not None:
        raise InvalidInput("uri holds no credentials: they go into auth, and are stored sealed", argument="uri")
    if parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f]", config.uri):
        raise InvalidInput("uri has no query, fragment or blanks", argument="uri")
    if config.auth.kind is AuthKind.BEARER and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise InvalidInput("a bearer token is sent over https only", argument="uri")
    if len(config.warehouse) > MAX_NAME_CHARS or re.search(r"[\x00-\x1f]", config.warehouse):
        raise InvalidInput(f"warehouse has at most {MAX_NAME_CHARS} characters", argument="warehouse")


def _check_auth(config: BridgeConfig, secrets: BridgeSecrets) -> None:
    auth = config.auth
    of_kind = {
        AuthKind.NONE: not secrets and not (auth.access_key_id or auth.region or auth.service),
        AuthKind.BEARER: bool(secrets.token)
        and not (secrets.secret_access_key or secrets.session_token or auth.access_key_id),
        AuthKind.SIGV4: bool(auth.access_key_id and secrets.secret_access_key and auth.region and auth.service)
        and not secrets.token,
    }
    if not of_kind[auth.kind]:
        needed = {
            AuthKind.NONE: "nothing else",
            AuthKind.BEARER: "a token and nothing else",
            AuthKind.SIGV4: "access-key-id, secret-access-key, region and service, and perhaps a session-token",
        }
        raise InvalidInput(f"auth of type {auth.kind} has {needed[auth.kind]}", argument="auth")
    for word in (auth.access_key_id, auth.region, auth.service):
        if word and not _WORD.fullmatch(word):
            raise InvalidInput("auth holds a word with characters that it cannot have", argument="auth")
    for secret in (secrets.token, secrets.session_token):
        if secret and not _HEADER_SAFE.fullmatch(secret.reveal()):
            raise InvalidInput("a token holds characters that a header cannot carry", argument="auth")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
