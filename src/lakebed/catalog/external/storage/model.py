"""The storage profile of a catalog: an external object store, and how the server and its clients reach it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec

AWS_AUTHORITY: Final = "s3.amazonaws.com"


class StorageType(StrEnum):
    """The kind of an object store, as named by the management API."""

    S3 = "S3"
    """AWS S3, or a store that is compatible with it."""


class StorageProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An external object store, without secrets. Stored in rows: new fields need defaults."""

    type: StorageType = StorageType.S3
    region: str = ""
    endpoint: str = ""
    """The endpoint for clients; empty for AWS."""
    endpoint_internal: str = ""
    """The endpoint for this server, if it differs."""
    sts_endpoint: str = ""
    """The STS endpoint for this server; empty for the store's own, or the region's of AWS."""
    sts_unavailable: bool = False
    path_style: bool | None = None
    """None: path style exactly if an endpoint is set."""
    role_arn: str = ""
    """The role that this server assumes, for itself and for vended credentials."""
    external_id: str = ""
    user_arn: str = ""
    """Informational: the identity that the role trusts."""
    current_kms_key: str = ""
    """Deprecated in the API, like the next: keys to encrypt and decrypt with."""
    allowed_kms_keys: tuple[str, ...] = ()
    encryption_keys: tuple[str, ...] = ()
    """Keys to encrypt and decrypt with."""
    decryption_keys: tuple[str, ...] = ()
    kms_unavailable: bool = False
    credentials: str = ""
    """The name of a credential set; empty for the default."""

    @property
    def server_endpoint(self) -> str | None:
        """The endpoint for this server; None for AWS."""
        return self.endpoint_internal or self.endpoint or None

    @property
    def token_endpoint(self) -> str | None:
        """The STS endpoint for this server; None for that of AWS."""
        return self.sts_endpoint or self.server_endpoint

    @property
    def uses_path_style(self) -> bool:
        """Whether requests have the bucket in the path. An IP address has no subdomains, so it has no other style."""
        if self.path_style is None or _is_address(urlsplit(self.endpoint).hostname):
            return bool(self.endpoint)
        return self.path_style

    @property
    def kms_keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The KMS keys that clients may encrypt with, and those that they may only decrypt with."""
        if self.kms_unavailable:
            return (), ()
        current = (self.current_kms_key,) if self.current_kms_key else ()
        encrypt = tuple(dict.fromkeys((*current, *self.allowed_kms_keys, *self.encryption_keys)))
        return encrypt, tuple(key for key in dict.fromkeys(self.decryption_keys) if key not in encrypt)

    @property
    def authority(self) -> str:
        """Host and port of the store for clients: with a bucket's name they identify the bucket."""
        return urlsplit(self.endpoint).netloc.lower() if self.endpoint else AWS_AUTHORITY


def _is_address(host: str | None) -> bool:
    try:
        ip_address(host or "")
    except ValueError:
        return False
    return True


encode_profile = msgspec.msgpack.Encoder().encode
decode_profile = msgspec.msgpack.Decoder(StorageProfile).decode


@dataclass(frozen=True, slots=True)
class CatalogStorage:
    """The storage profile of one catalog, as its row has it."""

    catalog: int
    """The id of the catalog."""
    revision: str
    """Changes with the profile and with its credentials."""
    profile: StorageProfile
