"""The options of `lakebed conform`: flags, environment variables and defaults."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret

from .profiles import VENDED, Profile, ResolvedProfile, find_profile, resolve


@dataclass(frozen=True, slots=True)
class ConformOption:
    """An option. A default of None is computed at the start of the run."""

    name: str
    text: str
    variables: tuple[str, ...] = ()
    default: str | None = ""

    @property
    def flag(self) -> str:
        """The flag."""
        return "--" + self.name.replace("_", "-")


OPTIONS: Final = (
    ConformOption("profile", "profile to run", ("LAKEBED_TABLE_PROFILE",), "lakebed"),
    ConformOption("endpoint", "endpoint of the server", ("LAKEBED_ENDPOINT",), "http://127.0.0.1:9000"),
    ConformOption(
        "s3_endpoint", "endpoint of S3, if the server has a separate listener for it", ("LAKEBED_S3_ENDPOINT",)
    ),
    ConformOption("access_key", "access key", ("LAKEBED_ACCESS_KEY", "LAKEBED_ROOT_ACCESS_KEY")),
    ConformOption(
        "secret_key",
        "its secret; prefer the environment, because other users of this machine can read command lines",
        ("LAKEBED_SECRET_KEY", "LAKEBED_ROOT_SECRET_KEY"),
    ),
    ConformOption("region", "region of signatures", ("LAKEBED_REGION", "AWS_REGION"), "us-east-1"),
    ConformOption("bucket", "bucket, created if missing", ("LAKEBED_TABLE_BUCKET",), "lakebed-table-conform"),
    ConformOption("namespace", "namespace (default: a new one)", ("LAKEBED_TABLE_NAMESPACE",), None),
    ConformOption("table", "table (default: a new one)", ("LAKEBED_TABLE_NAME",), None),
    ConformOption("catalog_name", "name of the catalog in the client", ("LAKEBED_TABLE_CATALOG_NAME",), "lakebed"),
    ConformOption("rest_path", "path of the catalog instead of the profile's", ("LAKEBED_TABLE_REST_PATH",)),
    ConformOption("rest_signing_name", "service name of signatures", ("LAKEBED_TABLE_REST_SIGNING_NAME",)),
    ConformOption("timeout", "request timeout in seconds", ("LAKEBED_TABLE_SMOKE_TIMEOUT",), "20"),
    ConformOption("warehouse", "warehouse, for profiles that need it", ("LAKEBED_TABLE_WAREHOUSE",)),
    ConformOption("table_bucket", "table bucket, for profiles with ARNs", ("LAKEBED_TABLE_BUCKET_NAME",)),
    ConformOption("account_id", "account, for profiles with ARNs", ("LAKEBED_TABLE_ACCOUNT_ID",), "000000000000"),
    ConformOption("warehouse_name", "full name of the warehouse", ("LAKEBED_TABLE_WAREHOUSE_NAME",)),
    ConformOption("catalog_uri", "URI of the catalog, for profiles that need it", ("LAKEBED_TABLE_CATALOG_URI",)),
)
"""Options of the server and the table."""

PROVENANCE: Final = (
    ConformOption("live_evidence_output", "write a record of the run to this file"),
    ConformOption("lakebed_build", "build of the server; recorded"),
    ConformOption("git_sha", "commit of the build; recorded"),
    ConformOption("catalog_backing", "metadata store of the catalog (sqlite, postgres); recorded"),
    ConformOption("operator", "operator of the run; recorded"),
    ConformOption("run_timestamp_utc", "time of the run, as 2026-01-31T12:00:00Z (default: now); recorded", (), None),
    ConformOption("client_version", "version of the client (default: detected); recorded", (), None),
)
"""Options of the record of a run."""

SECRET_FLAGS: Final = frozenset({"--access-key", "--secret-key"})


@dataclass(frozen=True, slots=True)
class ConformTarget:
    """Server, table and credentials of a run."""

    profile: Profile
    resolved: ResolvedProfile
    endpoint: str
    s3_endpoint: str
    access_key: str
    secret_key: Secret = field(repr=False)
    region: str
    bucket: str
    namespace: str
    table: str
    catalog_name: str
    timeout_seconds: float
    verifies_certificates: bool = True
    requires_vended_credentials: bool = False

    @property
    def uses_vended_credentials(self) -> bool:
        """Whether files are accessed only with vended credentials."""
        return self.requires_vended_credentials or self.profile.credential_mode == VENDED

    @property
    def rest_path(self) -> str:
        """Path of the catalog at its host."""
        return urlsplit(self.resolved.catalog_uri).path


def add_options(parser: argparse.ArgumentParser) -> None:
    """Every option of a run. Values stay None unless given, so that the environment comes second."""
    target = parser.add_argument_group("target", "Flags win over the environment variables in brackets.")
    for option in OPTIONS:
        variables = f" [{', '.join(option.variables)}]" if option.variables else ""
        target.add_argument(option.flag, metavar="TEXT", help=option.text + variables)
    target.add_argument("--insecure", action="store_true", help="trust any certificate of the endpoint; PyArrow never")
    run = parser.add_argument_group("run")
    run.add_argument("--require-vended-credentials", action="store_true", help="reach files with the catalog's keys")
    run.add_argument("--cleanup", action="store_true", help="drop the table and the namespace at the end")
    run.add_argument("--replace", action="store_true", help="drop a table of that name first")
    run.add_argument("--skip-catalog-api-probes", action="store_true", help="leave out step 10")
    record = parser.add_argument_group("record")
    for option in PROVENANCE:
        record.add_argument(option.flag, metavar="TEXT", help=option.text)


def option_values(arguments: argparse.Namespace, environ: Mapping[str, str], now_seconds: int) -> dict[str, str]:
    """Option values: from flags, the environment or defaults."""
    generated = {
        "namespace": f"conform{now_seconds}",
        "table": f"events{now_seconds}",
    }
    values: dict[str, str] = {}
    for option in (*OPTIONS, *PROVENANCE):
        given = getattr(arguments, option.name, None)
        if given is None:
            given = next((environ[name] for name in option.variables if environ.get(name)), option.default)
        values[option.name] = generated.get(option.name, "") if given is None else given
    values["endpoint"] = values["endpoint"].rstrip("/")
    values["s3_endpoint"] = values["s3_endpoint"].rstrip("/") or values["endpoint"]
    return values


def read_target(arguments: argparse.Namespace, values: Mapping[str, str]) -> ConformTarget:
    """The target of a run. Raises InvalidInput."""
    profile = find_profile(values["profile"])
    if not profile.can_run:
        raise InvalidInput(
            f"profile {profile.name} is for reference only; see --print-vendor-profiles",
            argument="--profile",
        )
    if urlsplit(values["endpoint"]).scheme not in ("http", "https"):
        raise InvalidInput("--endpoint: expected an http:// or https:// URL", argument="--endpoint")
    for name in ("access_key", "secret_key"):
        if not values[name]:
            variable = f"LAKEBED_{name.upper()}"
            raise InvalidInput(f"{variable} is not set; root's: `lakebed credentials --show`", argument=f"--{name}")
    return ConformTarget(
        profile=profile,
        resolved=resolve(profile, values, rest_path=values["rest_path"], rest_signing_name=values["rest_signing_name"]),
        endpoint=values["endpoint"],
        s3_endpoint=values["s3_endpoint"],
        access_key=values["access_key"],
        secret_key=Secret(values["secret_key"]),
        region=values["region"],
        bucket=values["bucket"],
        namespace=values["namespace"],
        table=values["table"],
        catalog_name=values["catalog_name"],
        timeout_seconds=_seconds(values["timeout"]),
        verifies_certificates=not arguments.insecure,
        requires_vended_credentials=arguments.require_vended_credentials,
    )


def redacted(words: Sequence[str]) -> str:
    """A command line with secrets replaced."""
    words_out: list[str] = []
    hides_next = False
    for word in words:
        flag, separator, _ = word.partition("=")
        if hides_next:
            words_out.append("***")
        elif flag in SECRET_FLAGS and separator:
            words_out.append(f"{flag}=***")
        else:
            words_out.append(word)
        hides_next = word in SECRET_FLAGS
    return " ".join(words_out)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidInput(
            f"--timeout: expected a number of seconds above 0. found={text}", argument="--timeout", value=text
        )
    return seconds
