"""Removing what a bucket with versioning keeps of removed objects: a check leaves none of its own."""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.core.sigv4 import encode_segment
from lakebed.storage.credentials import Credentials

from .store_client import StoreClient
from .target import CheckedStore

_MAX_PAGES: Final = 10
"""A check makes a dozen versions."""


async def remove_versions(client: StoreClient, target: CheckedStore, keys: Credentials) -> list[str]:
    """Remove every version and delete marker under the check's own prefix; what could not be removed."""
    prefix, bucket = target.options.key_prefix, target.options.bucket
    left: list[str] = []
    try:
        for _ in range(_MAX_PAGES):
            query = {"versions": "", "prefix": prefix}
            told = await client.signed("GET", target.bucket_url, keys, query=query)
            if told.status != 200:
                return [f"older versions under {bucket}/{prefix}"]
            found = told.children("Version", "DeleteMarker")
            if not found:
                break
            left = []
            for one in found:
                url = "/".join((target.bucket_url.rstrip("/"), *map(encode_segment, one["Key"].split("/"))))
                gone = await client.signed("DELETE", url, keys, query={"versionId": one["VersionId"]})
                if gone.status != 204:
                    left.append(f"{bucket}/{one['Key']} version {one['VersionId']}")
            if left:
                break
    except LakebedError:
        return [f"older versions under {bucket}/{prefix}"]
    return left
