"""The options of a run: what each is called on the command line and in the environment, and what they come to."""

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
    """An option with a value. A default of None is decided when the run begins."""

    name: str
    text: str
    variables: tuple[str, ...] = ()
    default: str | None = ""

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        return "--" + self.name.replace("_", "-")


OPTIONS: Final = (
    ConformOption("profile", "which profile to run", ("LAKEBED_TABLE_PROFILE",), "lakebed"),
    ConformOption("endpoint", "where the server is", ("LAKEBED_ENDPOINT",), "http://127.0.0.1:9000"),
    ConformOption("s3_endpoint", "where S3 is, if the server has another listener for it", ("LAKEBED_S3_ENDPOINT",)),
    ConformOption("access_key", "whose rights to use", ("LAKEBED_ACCESS_KEY", "LAKEBED_ROOT_ACCESS_KEY")),
    ConformOption(
        "secret_key",
        "its secret; better given in the environment, where the other users of this machine cannot read it",
        ("LAKEBED_SECRET_KEY", "LAKEBED_ROOT_SECRET_KEY"),
    ),
    ConformOption("region", "the region to sign for", ("LAKEBED_REGION", "AWS_REGION"), "us-east-1"),
    ConformOption("bucket", "the bucket; made if it is not there", ("LAKEBED_TABLE_BUCKET",), "lakebed-table-conform"),
    ConformOption("namespace", "the namespace (default: a new one)", ("LAKEBED_TABLE_NAMESPACE",), None),
    ConformOption("table", "the table (default: a new one)", ("LAKEBED_TABLE_NAME",), None),
    ConformOption("catalog_name", "what the client calls the catalog", ("LAKEBED_TABLE_CATALOG_NAME",), "lakebed"),
    ConformOption("rest_path", "path of the catalog, in place of the profile's", ("LAKEBED_TABLE_REST_PATH",)),
    ConformOption("rest_signing_name", "service name to sign for", ("LAKEBED_TABLE_REST_SIGNING_NAME",)),
    ConformOption("timeout", "seconds to wait for an answer", ("LAKEBED_TABLE_SMOKE_TIMEOUT",), "20"),
    ConformOption("warehouse", "the warehouse, for profiles that name one", ("LAKEBED_TABLE_WAREHOUSE",)),
    ConformOption("table_bucket", "the table bucket, for profiles with ARNs", ("LAKEBED_TABLE_BUCKET_NAME",)),
    ConformOption("account_id", "the account, for profiles with ARNs", ("LAKEBED_TABLE_ACCOUNT_ID",), "000000000000"),
    ConformOption("warehouse_name", "the warehouse's full name", ("LAKEBED_TABLE_WAREHOUSE_NAME",)),
    ConformOption("catalog_uri", "the catalog's URI, for profiles that are given one", ("LAKEBED_TABLE_CATALOG_URI",)),
)
"""What points a run at a server and a table."""

PROVENANCE: Final = (
    ConformOption("live_evidence_output", "write a record of the run to this file"),
    ConformOption("lakebed_build", "which build is running; recorded"),
    ConformOption("git_sha", "which commit it was built from; recorded"),
    ConformOption("catalog_backing", "what the catalog keeps its state in (sqlite, postgres); recorded"),
    ConformOption("operator", "who runs this; recorded"),
    ConformOption("run_timestamp_utc", "when, as 2026-01-31T12:00:00Z (default: now); recorded", (), None),
    ConformOption("client_version", "the client's version (default: asked of the client); recorded", (), None),
)
"""What goes into the record of a run."""

SECRET_FLAGS: Final = frozenset({"--access-key", "--secret-key"})


@dataclass(frozen=True, slots=True)
class ConformTarget:
    """A server, a table in it, and who asks."""

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
        """Whether files are reached with keys of the catalog alone."""
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
    """Every option's value: the flag's, else the environment's, else the default."""
    made = {
        "namespace": f"conform{now_seconds}",
        "table": f"events{now_seconds}",
    }
    values: dict[str, str] = {}
    for option in (*OPTIONS, *PROVENANCE):
        given = getattr(arguments, option.name, None)
        if given is None:
            given = next((environ[name] for name in option.variables if environ.get(name)), option.default)
        values[option.name] = made.get(option.name, "") if given is None else given
    values["endpoint"] = values["endpoint"].rstrip("/")
    values["s3_endpoint"] = values["s3_endpoint"].rstrip("/") or values["endpoint"]
    return values


def read_target(arguments: argparse.Namespace, values: Mapping[str, str]) -> ConformTarget:
    """Where a run goes. Raises InvalidInput."""
    profile = find_profile(values["profile"])
    if not profile.can_run:
        raise InvalidInput(
            f"profile {profile.name} is for reference and is not run here; --print-vendor-profiles shows it",
            argument="--profile",
        )
    if urlsplit(values["endpoint"]).scheme not in ("http", "https"):
        raise InvalidInput("--endpoint is an http:// or https:// address", argument="--endpoint")
    for name in ("access_key", "secret_key"):
        if not values[name]:
            variable = f"LAKEBED_{name.upper()}"
            raise InvalidInput(
                f"{variable} is not set; `lakebed credentials --show` prints root's", argument=f"--{name}"
            )
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
    """A command line without what must not be recorded."""
    shown: list[str] = []
    hides_next = False
    for word in words:
        flag, separator, _ = word.partition("=")
        if hides_next:
            shown.append("***")
        elif flag in SECRET_FLAGS and separator:
            shown.append(f"{flag}=***")
        else:
            shown.append(word)
        hides_next = word in SECRET_FLAGS
    return " ".join(shown)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidInput(f"--timeout is a number of seconds above 0. found={text}", argument="--timeout", value=text)
    return seconds
