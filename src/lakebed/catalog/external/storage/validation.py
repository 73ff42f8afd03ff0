"""Validates storage profiles. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput
from lakebed.net.hosts import AllowedHosts
from lakebed.storage.credentials.sts import is_loopback

from ..remote.validation import check_url
from .model import StorageProfile

MAX_KMS_KEYS: Final = 16

_REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ROLE: Final = re.compile(r"arn:[\w-]+:[\w-]*:[\w-]*:[\w-]*:[\w+=,.@/:-]{1,512}", re.ASCII)
_EXTERNAL_ID: Final = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)
_ARN: Final = re.compile(r"arn:[!-~]{1,1000}")
_NAME: Final = re.compile(r"[\w.-]{1,128}", re.ASCII)


def check_profile(profile: StorageProfile, hosts: AllowedHosts, *, allow_http: bool) -> None:
    """Return if the profile is valid and its hosts are allowed. Raises InvalidInput that names the field."""
    for argument, url in (
        ("endpoint", profile.endpoint),
        ("endpointInternal", profile.endpoint_internal),
        ("stsEndpoint", profile.sts_endpoint),
    ):
        if url:
            _check_endpoint(url, argument, hosts, allow_http=allow_http)
    if profile.endpoint_internal and not profile.endpoint:
        raise InvalidInput("endpointInternal requires endpoint, which clients get", argument="endpointInternal")
    if profile.region and not _REGION.fullmatch(profile.region):
        raise InvalidInput(f"invalid region: {profile.region[:80]!r}", argument="region")
    if not profile.region and not profile.endpoint:
        raise InvalidInput("region is required for buckets of AWS", argument="region")
    for argument, text, pattern in (
        ("roleArn", profile.role_arn, _ROLE),
        ("externalId", profile.external_id, _EXTERNAL_ID),
        ("userArn", profile.user_arn, _ARN),
        ("currentKmsKey", profile.current_kms_key, _ARN),
        ("storageName", profile.credentials, _NAME),
        *(("allowedKmsKeys", key, _ARN) for key in profile.allowed_kms_keys),
        *(("encryptionKeys", key, _ARN) for key in profile.encryption_keys),
        *(("decryptionKeys", key, _ARN) for key in profile.decryption_keys),
    ):
        if text and not pattern.fullmatch(text):
            raise InvalidInput(f"invalid {argument}: {text[:80]!r}", argument=argument)
    for argument, keys in (
        ("allowedKmsKeys", profile.allowed_kms_keys),
        ("encryptionKeys", profile.encryption_keys),
        ("decryptionKeys", profile.decryption_keys),
    ):
        if len(keys) > MAX_KMS_KEYS:
            raise InvalidInput(f"too many KMS keys. maximum={MAX_KMS_KEYS}", argument=argument)
    if profile.external_id and not profile.role_arn:
        raise InvalidInput("externalId requires roleArn", argument="externalId")
    if profile.sts_unavailable and (profile.role_arn or profile.sts_endpoint):
        raise InvalidInput("stsUnavailable excludes roleArn and stsEndpoint", argument="stsUnavailable")


def _check_endpoint(url: str, argument: str, hosts: AllowedHosts, *, allow_http: bool) -> None:
    check_url(url, argument)
    parts = urlsplit(url)
    if parts.path.strip("/"):
        raise InvalidInput(f"{argument} must not have a path", argument=argument)
    if parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname or ""):
        raise InvalidInput(
            f"{argument} is plain http: use https, or set external_storage.allow_http on the server", argument=argument
        )
    hosts.check(url, argument=argument)
