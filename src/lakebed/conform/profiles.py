"""Client configuration profiles: three for Lakebed, and those of other vendors for reference."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput

REFERENCE_ONLY: Final = "reference-only"
VENDED: Final = "catalog-vended-temporary-credentials"
STATIC: Final = "static-s3-credentials"


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile. `catalog_uri` and `warehouse` are templates over the options."""

    name: str
    catalog_uri: str
    rest_signing_name: str
    warehouse: str
    credential_mode: str
    status: str
    compatibility_stage: str
    catalog_uri_shape: str
    warehouse_shape: str
    namespace_model: str
    pagination_model: str
    not_claimed: tuple[str, ...] = ()

    @property
    def can_run(self) -> bool:
        """Whether `lakebed conform` can run it. Reference profiles enable table buckets in other ways."""
        return self.status != REFERENCE_ONLY


@dataclass(frozen=True, slots=True)
class ResolvedProfile:
    """A profile with the values of a run."""

    name: str
    catalog_uri: str
    warehouse: str
    rest_signing_name: str
    credential_mode: str


def _lakebed(name: str, mount: str, signing_name: str, mode: str, status: str, stage: str) -> Profile:
    return Profile(
        name=name,
        catalog_uri="{endpoint}" + mount,
        rest_signing_name=signing_name,
        warehouse="{bucket}",
        credential_mode=mode,
        status=status,
        compatibility_stage=stage,
        catalog_uri_shape=f"https://HOST{mount}",
        warehouse_shape="BUCKET",
        namespace_model="multi-level",
        pagination_model="page-token",
    )


def _vendor(name: str, catalog_uri: str, signing_name: str, warehouse: str, mode: str, **shapes: str) -> Profile:
    return Profile(
        name=name,
        catalog_uri=catalog_uri,
        rest_signing_name=signing_name,
        warehouse=warehouse,
        credential_mode=mode,
        status=REFERENCE_ONLY,
        compatibility_stage="configuration-shape",
        catalog_uri_shape=shapes["uri"],
        warehouse_shape=shapes["warehouse_shape"],
        namespace_model=shapes["namespaces"],
        pagination_model="page-token",
        not_claimed=("runs against the vendor", "the vendor's control plane", "the vendor's error codes"),
    )


PROFILES: Final[Mapping[str, Profile]] = {
    profile.name: profile
    for profile in (
        _lakebed("lakebed", "/iceberg", "s3", STATIC, "automated-smoke-target", "canonical"),
        _lakebed("lakebed-compat", "/_iceberg", "s3tables", STATIC, "compatibility-smoke-target", "alias"),
        _lakebed(
            "lakebed-vended-credentials", "/iceberg", "s3", VENDED, "automated-credential-smoke-target", "credentials"
        ),
        _vendor(
            "aws-s3tables",
            "https://s3tables.{region}.amazonaws.com/iceberg",
            "s3tables",
            "arn:aws:s3tables:{region}:{account_id}:bucket/{table_bucket}",
            "aws-iam-or-session-credentials",
            uri="https://s3tables.REGION.amazonaws.com/iceberg",
            warehouse_shape="arn:aws:s3tables:REGION:ACCOUNT:bucket/BUCKET",
            namespaces="single-level",
        ),
        _vendor(
            "minio-aistor",
            "{endpoint}/_iceberg",
            "s3tables",
            "{warehouse}",
            "policy-scoped-s3-credentials",
            uri="https://HOST/_iceberg",
            warehouse_shape="WAREHOUSE",
            namespaces="single-level",
        ),
        _vendor(
            "cloudflare-r2-data-catalog",
            "{catalog_uri}",
            "s3",
            "{warehouse_name}",
            "catalog-vended",
            uri="https://HOST/catalog",
            warehouse_shape="WAREHOUSE-NAME",
            namespaces="multi-level",
        ),
        _vendor(
            "oss-tables",
            "{endpoint}/iceberg",
            "osstables",
            "acs:osstables:{region}:{account_id}:bucket/{table_bucket}",
            "sigv4-s3fileio-credentials",
            uri="https://HOST/iceberg",
            warehouse_shape="acs:osstables:REGION:ACCOUNT:bucket/BUCKET",
            namespaces="single-level",
        ),
    )
}


def find_profile(name: str) -> Profile:
    """Find a profile by name. Raises InvalidInput."""
    if name not in PROFILES:
        raise InvalidInput(
            f"no such profile. expected={', '.join(PROFILES)} found={name}", argument="--profile", value=name
        )
    return PROFILES[name]


def resolve(
    profile: Profile, values: Mapping[str, str], *, rest_path: str = "", rest_signing_name: str = ""
) -> ResolvedProfile:
    """Resolve a profile; `rest_path` and `rest_signing_name` override it. Raises InvalidInput."""
    uri = _fill(profile, profile.catalog_uri, values)
    if rest_path:
        parts = urlsplit(uri)
        uri = f"{parts.scheme}://{parts.netloc}/{rest_path.strip('/')}"
    return ResolvedProfile(
        name=profile.name,
        catalog_uri=uri.rstrip("/"),
        warehouse=_fill(profile, profile.warehouse, values),
        rest_signing_name=rest_signing_name or profile.rest_signing_name,
        credential_mode=profile.credential_mode,
    )


def described(profile: Profile) -> dict[str, Any]:
    """The JSON of reports."""
    return {**asdict(profile), "not_claimed": list(profile.not_claimed), "can_run": profile.can_run}


def _fill(profile: Profile, template: str, values: Mapping[str, str]) -> str:
    needed = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    for name in needed:
        if not values.get(name):
            option = "--" + name.replace("_", "-")
            raise InvalidInput(f"profile {profile.name} needs {option}", argument=option)
    return template.format_map(values)
