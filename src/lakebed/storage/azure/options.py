"""Options of an Azure store, validated on construction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ...core.secrets import Secret
from ..option_checks import check_endpoint, check_limits, check_prefix, invalid_option, joined_prefix

_ACCOUNT: Final = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER: Final = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(?:-[a-z0-9]+)*|\$root|\$web")


@dataclass(frozen=True, slots=True)
class AzureOptions:
    """One container of a storage account. Raises InvalidSetting, starting with the field's name, for an invalid value.

    Credentials are an account key, a shared access signature, or a client secret; without any of them, those that
    `DefaultAzureCredential` finds (environment, workload identity, managed identity, command line tools).
    """

    account: str
    container: str
    prefix: str = ""
    """Prepended to every key, joined with one `/`."""

    endpoint: str | None = None
    """None: `https://ACCOUNT.blob.core.windows.net`. Azurite's has the account as path."""

    allow_http: bool = False
    """Allow an endpoint without TLS."""

    hierarchical: bool = False
    """Whether the account has a hierarchical namespace (ADLS Gen2)."""

    account_key: Secret | None = None
    sas_token: Secret | None = None
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    authority: str | None = None
    """URL of Entra ID; None: the public cloud's."""

    max_concurrency: int = 32
    """Concurrent requests: threads, and pooled connections."""

    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not _ACCOUNT.fullmatch(self.account):
            raise invalid_option("account", f"expected 3 to 24 lower-case letters and digits. found={self.account!r}")
        if not _CONTAINER.fullmatch(self.container):
            raise invalid_option("container", f"expected a container name. found={self.container!r}")
        check_prefix(self.prefix)
        if self.endpoint is not None:
            check_endpoint(self.endpoint, allow_http=self.allow_http)
        if self.authority is not None:
            check_endpoint(self.authority, allow_http=False, name="authority")
        self._check_credentials()
        check_limits(
            max_concurrency=self.max_concurrency,
            connect_timeout_seconds=self.connect_timeout_seconds,
            read_timeout_seconds=self.read_timeout_seconds,
        )

    def _check_credentials(self) -> None:
        client = {"tenant_id": self.tenant_id, "client_id": self.client_id, "client_secret": self.client_secret}
        missing = [name for name, value in client.items() if not value]
        if 0 < len(missing) < len(client):
            raise invalid_option(missing[0], "tenant_id, client_id and client_secret are set together")
        if self.account_key is not None and self.sas_token is not None:
            raise invalid_option("sas_token", "set together with account_key: use one of them")
        for name, value in (("account_key", self.account_key), ("sas_token", self.sas_token)):
            if value is None:
                continue
            if not value:
                raise invalid_option(name, "must not be empty")
            if not missing:
                raise invalid_option(name, "set together with client_secret: use one of them")

    @property
    def account_url(self) -> str:
        """The URL of the account's Blob service."""
        return (self.endpoint or f"https://{self.account}.blob.core.windows.net").rstrip("/")

    @property
    def uses_tls(self) -> bool:
        """Whether the account is reached over TLS."""
        return urlsplit(self.account_url).scheme == "https"

    @property
    def key_prefix(self) -> str:
        """The prefix with exactly one `/` at its end, or nothing."""
        return joined_prefix(self.prefix)
