"""Validates configurations of bridges. Pure."""

from __future__ import annotations

import re
from typing import Final

from lakebed.catalog.catalogs.properties import check_properties
from lakebed.catalog.tables.files import parse_location
from lakebed.core.errors import InvalidInput
from lakebed.iceberg.commits.builder import check_uuid

from ..remote.model import AuthKind, RemoteSecrets
from ..remote.validation import MAX_NAME_CHARS, check_address, check_auth
from .model import BridgeConfig, ExternalCatalogKind, SyncMode

MIN_POLL_SECONDS: Final = 1
MAX_POLL_SECONDS: Final = 7 * 86_400

_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f/\\]")


def check_config(config: BridgeConfig, secrets: RemoteSecrets) -> None:
    """Return if the configuration is valid. Raises InvalidInput that names the field."""
    _check_names(config)
    check_properties(config.properties)
    if config.external_table_uuid is not None:
        check_uuid(config.external_table_uuid)
    if config.metadata_location is not None:
        parse_location(config.metadata_location)
    if config.sync_mode is SyncMode.POLL and not config.catalog.is_readable:
        raise InvalidInput(
            f"a {config.catalog} cannot be polled: sync it on request, or configure it as {ExternalCatalogKind.REST}"
            " if it serves the Iceberg REST protocol",
            argument="sync-mode",
        )
    if not MIN_POLL_SECONDS <= config.poll_seconds <= MAX_POLL_SECONDS:
        raise InvalidInput(
            f"poll-interval-seconds must be from {MIN_POLL_SECONDS} to {MAX_POLL_SECONDS}",
            argument="poll-interval-seconds",
        )
    if config.catalog is ExternalCatalogKind.REST:
        check_address(config.address, config.auth, what=f"{ExternalCatalogKind.REST} catalog")
    elif config.uri or config.warehouse or config.auth.kind is not AuthKind.NONE:
        raise InvalidInput(f"uri, warehouse and auth require catalog {ExternalCatalogKind.REST}", argument="uri")
    if config.catalog is ExternalCatalogKind.FOLDER:
        if not parse_location(config.folder).key.strip("/"):
            raise InvalidInput("metadata-folder must be a folder in a bucket", argument="metadata-folder")
    elif config.folder:
        raise InvalidInput(f"metadata-folder requires catalog {ExternalCatalogKind.FOLDER}", argument="metadata-folder")
    check_auth(config.auth, secrets)


def _check_names(config: BridgeConfig) -> None:
    if config.catalog is not ExternalCatalogKind.FOLDER and not (config.external_namespace and config.external_table):
        raise InvalidInput("external-namespace and external-table are required", argument="external-table")
    named = [("external-namespace", level) for level in config.external_namespace]
    if config.external_table:
        named.append(("external-table", config.external_table))
    if config.external_catalog_id is not None:
        named.append(("external-catalog-id", config.external_catalog_id))
    for field, value in named:
        if not 0 < len(value) <= MAX_NAME_CHARS or _FORBIDDEN.search(value):
            raise InvalidInput(
                f"{field} must have 1 to {MAX_NAME_CHARS} characters without slashes or control characters",
                argument=field,
            )
    token = config.external_version_token
    if token is not None and (not 0 < len(token) <= MAX_NAME_CHARS or "\0" in token):
        raise InvalidInput(
            f"external-version-token must have 1 to {MAX_NAME_CHARS} characters", argument="external-version-token"
        )
