"""The store that is checked: where it is, which bucket, and how it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from lakebed.storage.s3 import S3Options


@dataclass(frozen=True, slots=True)
class CheckedStore:
    """One store. `options` are those of the byte store, so that what is tried is what a server would do."""

    options: S3Options
    region: str
    makes_bucket: bool = False
    """Whether the bucket is made for the check, and removed after it."""
    sts_endpoint: str | None = None
    """None: where the store is; of AWS, its own."""
    role_arn: str | None = None
    """None: whatever role an STS gives that asks for none."""
    warehouse: str | None = None
    """A table bucket of a Lakebed server, for the credentials that its catalog vends."""
    catalog_endpoint: str | None = None
    """Where that catalog is; None: where the store is."""
    conditional_writes: bool = True
    ca_bundle: str | None = None

    @property
    def endpoint(self) -> str:
        """The store's address, without a slash at the end."""
        given = self.options.endpoint
        return given.rstrip("/") if given is not None else f"https://s3.{self.region}.{_domain(self.region)}"

    @property
    def is_plain(self) -> bool:
        """Whether it is spoken to without TLS."""
        return urlsplit(self.endpoint).scheme == "http"

    @property
    def host(self) -> str:
        """The name to look up. In virtual-host style, that of the bucket."""
        return urlsplit(self.bucket_url).hostname or ""

    @property
    def port(self) -> int:
        """The port to connect to."""
        return urlsplit(self.endpoint).port or (80 if self.is_plain else 443)

    @property
    def bucket_url(self) -> str:
        """Where the bucket is."""
        parts = urlsplit(self.endpoint)
        if self.options.uses_path_style:
            return f"{self.endpoint}/{quote(self.options.bucket)}"
        return f"{parts.scheme}://{self.options.bucket}.{parts.netloc}{parts.path}/"

    @property
    def token_service(self) -> str:
        """Where temporary keys are asked for."""
        if self.sts_endpoint is not None:
            return self.sts_endpoint.rstrip("/")
        if self.options.endpoint is not None:
            return self.endpoint
        return f"https://sts.{self.region}.{_domain(self.region)}"


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
