"""Where the server is and whose keys are used, for commands that speak to it as any client does."""

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
    """Flags to find the server; with `warehouse`, which table bucket is meant."""
    group = parser.add_argument_group(
        "server", "Keys come from LAKEBED_ACCESS_KEY or AWS_ACCESS_KEY_ID and their secrets, else from --data: root's."
    )
    group.add_argument(
        "--endpoint", metavar="URL", help=f"where the server is [{ENDPOINT_VARIABLE}]; by default where it listens"
    )
    group.add_argument(
        "--s3-endpoint",
        metavar="URL",
        help=f"where S3 is, if the server has another listener for it [{S3_ENDPOINT_VARIABLE}]",
    )
    group.add_argument("--region", metavar="TEXT", help="the region to sign for [LAKEBED_REGION, AWS_REGION]")
    if warehouse:
        group.add_argument("--warehouse", metavar="BUCKET", help=f"the table bucket [{WAREHOUSE_VARIABLE}]")
    add_settings_flags(parser, serving=False)


def read_access(arguments: argparse.Namespace, settings: Settings) -> ServerAccess:
    """How the server is reached. Raises InvalidSetting that says what to set."""
    endpoint = arguments.endpoint or os.environ.get(ENDPOINT_VARIABLE)
    # `lakebed check storage` finds the server by its settings alone, and has no such flag.
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
        # Whoever can read the data folder's secrets is root anyway.
        return find_access(
            endpoint,
            access_key_id=identity.root_access_key,
            secret_access_key=identity.root_secret_key,
            region=arguments.region or settings.server.region,
            s3_endpoint=s3_endpoint,
        )


def find_warehouse(arguments: argparse.Namespace) -> str | None:
    """The table bucket that is meant, if one is named."""
    return arguments.warehouse or os.environ.get(WAREHOUSE_VARIABLE) or None


def read_warehouse(arguments: argparse.Namespace) -> str:
    """The table bucket that is meant. Raises InvalidInput if none is named."""
    named = find_warehouse(arguments)
    if not named:
        raise InvalidInput(f"which table bucket? give --warehouse, or set {WAREHOUSE_VARIABLE}", argument="--warehouse")
    return named
