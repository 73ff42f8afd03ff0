"""The store to check: endpoint, bucket, credentials."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from lakebed.storage.credentials import CredentialSource
from lakebed.storage.s3 import S3Options


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """One store. `options` are those of the storage backend, so that the check does what a server would do."""

    options: S3Options
    region: str
    makes_bucket: bool = False
    """Whether the check creates the bucket, and removes it afterwards."""
    sts_endpoint: str | None = None
    """None: the endpoint of the store; for AWS the regional STS."""
    role_arn: str | None = None
    """None: AssumeRole without a role."""
    external_id: str | None = None
    """Sent with the role."""
    token_source: CredentialSource | None = None
    """The credentials that assume the role; None: those of the other steps."""
    warehouse: str | None = None
    """A table bucket of a Lakebed server, for vended credentials."""
    catalog_endpoint: str | None = None
    """The catalog's endpoint; None: the store's."""
    conditional_writes: bool = True
    ca_bundle: str | None = None

    @property
    def endpoint(self) -> str:
        """The store's URL, without a trailing slash."""
        given = self.options.endpoint
        return given.rstrip("/") if given is not None else f"https://s3.{self.region}.{_domain(self.region)}"

    @property
    def is_plain(self) -> bool:
        """Whether the endpoint is plain HTTP."""
        return urlsplit(self.endpoint).scheme == "http"

    @property
    def host(self) -> str:
        """The host name to resolve; in virtual-host style it contains the bucket."""
        return urlsplit(self.bucket_url).hostname or ""

    @property
    def port(self) -> int:
        """The port to connect to."""
        return urlsplit(self.endpoint).port or (80 if self.is_plain else 443)

    @property
    def bucket_url(self) -> str:
        """The URL of the bucket."""
        parts = urlsplit(self.endpoint)
        if self.options.uses_path_style:
            return f"{self.endpoint}/{quote(self.options.bucket)}"
        return f"{parts.scheme}://{self.options.bucket}.{parts.netloc}{parts.path}/"

    @property
    def token_service(self) -> str:
        """The STS endpoint."""
        if self.sts_endpoint is not None:
            return self.sts_endpoint.rstrip("/")
        if self.options.endpoint is not None:
            return self.endpoint
        return f"https://sts.{self.region}.{_domain(self.region)}"


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
