"""The clients of a run. They come with an extra and are imported when a run starts."""

from __future__ import annotations

import importlib.metadata
from functools import partial
from typing import TYPE_CHECKING, Any

from .options import ConformTarget

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog


def client_version() -> str:
    """The version of PyIceberg."""
    return importlib.metadata.version("pyiceberg")


def store_client(
    target: ConformTarget, access_key: str, secret_key: str, session_token: str | None = None
) -> Any:  # Any: boto3's clients are made at run time
    """A boto3 client for S3, path-style."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=target.s3_endpoint,
        region_name=target.region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        aws_session_token=session_token,
        verify=target.verifies_certificates,
        config=Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            connect_timeout=target.timeout_seconds,
            read_timeout=target.timeout_seconds,
        ),
    )


def catalog_client(target: ConformTarget) -> RestCatalog:
    """A PyIceberg catalog that signs with the caller's key. Files use that key too, or vended credentials."""
    from pyiceberg.catalog.rest import RestCatalog

    timeout = target.timeout_seconds

    class BoundedCatalog(RestCatalog):
        """Adds a request timeout: PyIceberg has no setting for it."""

        def _create_session(self) -> Any:  # Any: a session of requests, which has no types
            session = super()._create_session()
            session.request = partial(session.request, timeout=timeout)  # type: ignore[method-assign]  # see above
            return session

    return BoundedCatalog(target.catalog_name, **catalog_properties(target))


def catalog_properties(target: ConformTarget) -> dict[str, Any]:  # Any: text, but for the settings of TLS
    """The configuration of PyIceberg."""
    secret = target.secret_key.reveal()
    properties: dict[str, Any] = {  # Any: likewise
        "uri": target.resolved.catalog_uri,
        "warehouse": target.resolved.warehouse,
        "prefix": target.bucket,
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "rest.sigv4-enabled": "true",
        "rest.signing-name": target.resolved.rest_signing_name,
        "rest.signing-region": target.region,
        "rest.sigv4.max-retries": "2",
        "client.region": target.region,
        "client.access-key-id": target.access_key,
        "client.secret-access-key": secret,
        "s3.endpoint": target.s3_endpoint,
        "s3.region": target.region,
        "s3.connect-timeout": str(target.timeout_seconds),
        "s3.request-timeout": str(target.timeout_seconds),
    }
    if not target.uses_vended_credentials:
        # By default PyIceberg requests and prefers vended credentials.
        properties["header.X-Iceberg-Access-Delegation"] = ""
        properties["s3.access-key-id"] = target.access_key
        properties["s3.secret-access-key"] = secret
    if not target.verifies_certificates:
        properties["ssl"] = {"cabundle": False}
    return properties
