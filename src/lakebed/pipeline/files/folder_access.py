"""Access to a folder of the object store that belongs to no table yet, with temporary credentials for this folder."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from lakebed.client.connection import ServerConnection
from lakebed.client.tables import Tables
from lakebed.core.errors import InvalidInput, Unavailable

from ..spark.iceberg_jvm import catalog_of, identifier_of, java_map, java_of
from ..table_ref import CatalogTable
from .listing import is_inside, key_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PURPOSE: Final = "importing a folder"
_STS: Final = "{https://sts.amazonaws.com/doc/2011-06-15/}"


def warehouse_location(table: CatalogTable) -> str:
    """The location of the table's catalog."""
    with closing(ServerConnection(table.access)) as connection:
        return Tables(connection).location(table.ref.warehouse)


def open_folder(spark: SparkSession, table: CatalogTable, folder: str) -> Any:  # Any: a FileIO of Iceberg's
    """A FileIO for a folder: with vended credentials inside the table's own catalog, with STS credentials elsewhere."""
    if urlsplit(folder).scheme != "s3":
        raise InvalidInput(f"expected a folder as s3://BUCKET/FOLDER. found={folder!r}", argument="source")
    bucket, _, key = key_of(folder).partition("/")
    if not bucket or not key.strip("/"):
        raise InvalidInput(f"expected a folder as s3://BUCKET/FOLDER. found={folder!r}", argument="source")
    if is_inside(folder, warehouse_location(table)):
        return _of_staged_table(spark, table, folder)
    return _of_session(spark, table, bucket, key.strip("/"))


def _of_staged_table(spark: SparkSession, table: CatalogTable, folder: str) -> Any:
    """The FileIO of a staged table at the folder. Nothing is created.

    The catalog vends credentials for it to principals that may create the table, if the folder is not another table's.
    """
    java = java_of(spark, PURPOSE)
    empty = java.org.apache.iceberg.Schema(java.java.util.ArrayList())
    builder = catalog_of(spark, table, PURPOSE).buildTable(identifier_of(spark, *table.parts), empty)
    return builder.withLocation(folder.rstrip("/")).createTransaction().table().io()


def _of_session(spark: SparkSession, table: CatalogTable, bucket: str, folder: str) -> Any:
    """A FileIO with read-only STS credentials for the folder alone."""
    java = java_of(spark, PURPOSE)
    properties = {
        **_session_keys(table, bucket, folder),
        "s3.endpoint": table.access.s3.endpoint,
        "s3.path-style-access": "true",
        "client.region": table.access.region,
    }
    return java.org.apache.iceberg.CatalogUtil.loadFileIO(
        "org.apache.iceberg.aws.s3.S3FileIO", java_map(spark, properties), None
    )


def _session_keys(table: CatalogTable, bucket: str, folder: str) -> dict[str, str]:
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/{folder}/*"},
            {
                "Effect": "Allow",
                "Action": "s3:ListBucket",
                "Resource": f"arn:aws:s3:::{bucket}",
                "Condition": {"StringLike": {"s3:prefix": f"{folder}/*"}},
            },
        ],
    }
    form = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleSessionName": "lakebed-import",
        "Policy": json.dumps(policy, separators=(",", ":")),
    }
    with closing(ServerConnection(table.access.s3)) as connection:
        response = connection.call("POST", "/", query=form).body
    try:
        found = ElementTree.fromstring(response).find(f".//{_STS}Credentials")  # noqa: S314  # our own server's
    except ElementTree.ParseError:
        found = None
    if found is None:
        raise Unavailable(f"unexpected AssumeRole response. endpoint={table.access.s3.endpoint}")
    return {
        "s3.access-key-id": found.findtext(f"{_STS}AccessKeyId", ""),
        "s3.secret-access-key": found.findtext(f"{_STS}SecretAccessKey", ""),
        "s3.session-token": found.findtext(f"{_STS}SessionToken", ""),
    }
