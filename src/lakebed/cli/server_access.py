"""Endpoint and credentials for commands that send requests to a server."""

from __future__ import annotations

import argparse
import os
from typing import Final

from lakebed.client.access import ENDPOINT_VARIABLE, S3_ENDPOINT_VARIABLE, ServerAccess, find_access
from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.settings import Settings
from lakebed.server.stores.identity import find_identity

from .settings_flags import add_settings_flags

WAREHOUSE_VARIABLE: Final = "LAKEBED_TABLE_WAREHOUSE"


def add_access_flags(parser: argparse.ArgumentParser, *, warehouse: bool) -> None:
    """Add flags of the server; with `warehouse`, the flag of the table bucket."""
    group = parser.add_argument_group(
        "server", "Credentials: LAKEBED_ACCESS_KEY or AWS_ACCESS_KEY_ID with their secrets, else root's from --data."
    )
    group.add_argument(
        "--endpoint", metavar="URL", help=f"endpoint of the server [{ENDPOINT_VARIABLE}] (default: its listener)"
    )
    group.add_argument(
        "--s3-endpoint",
        metavar="URL",
        help=f"endpoint of S3, if the server has a separate listener for it [{S3_ENDPOINT_VARIABLE}]",
    )
    group.add_argument("--region", metavar="TEXT", help="the region of signatures [LAKEBED_REGION, AWS_REGION]")
    if warehouse:
        group.add_argument("--warehouse", metavar="BUCKET", help=f"the table bucket [{WAREHOUSE_VARIABLE}]")
    add_settings_flags(parser, serving=False)


def read_access(arguments: argparse.Namespace, settings: Settings) -> ServerAccess:
    """Endpoint and credentials. Raises InvalidSetting that names what to set."""
    endpoint = arguments.endpoint or os.environ.get(ENDPOINT_VARIABLE)
    # `lakebed check storage` has no such flag.
    s3_endpoint: str | None = getattr(arguments, "s3_endpoint", None)
    if endpoint is None:
        endpoint = settings.server.local_catalog_url
        if settings.server.catalog_listen is not None:
            s3_endpoint = s3_endpoint or os.environ.get(S3_ENDPOINT_VARIABLE) or settings.server.local_url
    try:
        return find_access(endpoint, region=arguments.region, s3_endpoint=s3_endpoint)
    except InvalidSetting:
        identity = find_identity(settings)
        if identity is None:
            raise
        # Access to the secrets in the data folder is equivalent to root's permissions.
        return find_access(
            endpoint,
            access_key_id=identity.root_access_key,
            secret_access_key=identity.root_secret_key,
            region=arguments.region or settings.server.region,
            s3_endpoint=s3_endpoint,
        )


def find_warehouse(arguments: argparse.Namespace) -> str | None:
    """The table bucket, or None."""
    return arguments.warehouse or os.environ.get(WAREHOUSE_VARIABLE) or None


def read_warehouse(arguments: argparse.Namespace) -> str:
    """The table bucket. Raises InvalidInput if not given."""
    named = find_warehouse(arguments)
    if not named:
        raise InvalidInput(
            f"table bucket missing: give --warehouse, or set {WAREHOUSE_VARIABLE}", argument="--warehouse"
        )
    return named
