"""`lakebed check storage`: tries a store step by step, and says what is wrong with it and what to do next."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from dataclasses import asdict
from typing import Final

from lakebed.checkup.model import CheckReport, StepName, StepOutcome
from lakebed.checkup.runner import check_store
from lakebed.checkup.target import CheckedStore
from lakebed.core.ids import new_blob_id
from lakebed.core.secrets import Secret
from lakebed.core.settings import S3StorageSettings, Settings, StorageKind
from lakebed.core.settings.tree import ConditionalPut
from lakebed.storage.credentials import CredentialChain, CredentialSource, HostEnvironment, default_chain
from lakebed.storage.credentials.inline import InlineSource
from lakebed.storage.credentials.profile import find_region
from lakebed.storage.s3 import S3Options

from .output import print_json, print_rows
from .server_access import WAREHOUSE_VARIABLE, read_access
from .settings_flags import add_settings_flags, read_settings

UNWELL: Final = 1
"""Exit status when a step failed, or something is left behind."""

_SCRATCH: Final = "lakebed-check"


def configure(parser: argparse.ArgumentParser) -> None:
    """The things to check."""
    tasks = parser.add_subparsers(title="things", metavar="THING", required=True)
    text = "try a store step by step: the way to it, keys, writes, reads, and refusals"
    storage = tasks.add_parser("storage", help=text, description=_DESCRIPTION, allow_abbrev=False)
    store = storage.add_argument_group("store", "Keys come from the AWS environment, profile or machine, as ever.")
    store.add_argument("--endpoint", metavar="URL", help="an S3 store; by default the byte store of the settings")
    store.add_argument("--server", action="store_true", help="this server, also where its bytes live elsewhere")
    store.add_argument("--bucket", metavar="NAME", help="a bucket that is there; by default one is made, and removed")
    store.add_argument("--prefix", metavar="TEXT", help="work below this prefix of keys")
    store.add_argument("--region", metavar="TEXT", help="the region to sign for")
    store.add_argument("--virtual-host", action="store_true", help="put the bucket into the host name, not the path")
    store.add_argument("--sts-endpoint", metavar="URL", help="where temporary keys are asked for, if not at the store")
    store.add_argument("--role-arn", metavar="ARN", help="the role to ask keys of, where the store's STS wants one")
    store.add_argument(
        "--warehouse", metavar="BUCKET", help=f"a table bucket: try keys of the catalog too [{WAREHOUSE_VARIABLE}]"
    )
    storage.add_argument("--json", action="store_true", help="print JSON")
    add_settings_flags(storage, serving=False)


_DESCRIPTION: Final = (
    "Tries a store step by step, says which step fails and what to do about it, and leaves nothing behind. Without"
    " --endpoint it is the byte store of the settings; where that is a folder, the server itself. Ends with 0 if all is"
    f" well, {UNWELL} if a step failed."
)


def run(arguments: argparse.Namespace) -> int:
    """Check, and print what was found."""
    # What the byte store would log of a step, the report tells.
    logging.getLogger("lakebed.storage").addHandler(logging.NullHandler())
    report = asyncio.run(_check(arguments))
    if arguments.json:
        print_json(_document(report))
    else:
        _print(report)
    return 0 if report.passed else UNWELL


async def _check(arguments: argparse.Namespace) -> CheckReport:
    settings = read_settings(arguments).settings
    host_environment = HostEnvironment.of_this_machine()
    target, source = await _chosen(arguments, settings, host_environment)
    if not sys.stderr.isatty():
        return await check_store(target, source, host_environment, lambda step: None)
    from rich.console import Console

    with Console(stderr=True).status(f"checking {target.endpoint}") as status:

        def tell(step: StepName) -> None:
            status.update(f"{step} …")

        return await check_store(target, source, host_environment, tell)


async def _chosen(
    arguments: argparse.Namespace, settings: Settings, host_environment: HostEnvironment
) -> tuple[CheckedStore, CredentialSource]:
    """Which store is meant, and whose keys. Raises InvalidSetting."""
    ca_bundle = host_environment.value("AWS_CA_BUNDLE") or None
    if arguments.endpoint is None and not arguments.server and settings.storage.kind is StorageKind.S3:
        store = settings.storage.s3
        region = arguments.region or store.region or await find_region(host_environment) or "us-east-1"
        options = _configured(store, arguments, region)
        source: CredentialSource = default_chain(
            host_environment,
            access_key_id=store.access_key_id,
            secret_access_key=store.secret_access_key,
            session_token=store.session_token,
            region=region,
        )
        keeps = store.conditional_put is not ConditionalPut.DISABLED
        return CheckedStore(
            options,
            region,
            sts_endpoint=arguments.sts_endpoint,
            role_arn=arguments.role_arn,
            conditional_writes=keeps,
            ca_bundle=ca_bundle,
        ), source
    catalog_endpoint: str | None = None
    if arguments.endpoint is None:
        access = read_access(arguments, settings)
        endpoint, catalog_endpoint, region = access.s3.endpoint, access.endpoint, access.region
        source = InlineSource(access.access_key_id, access.secret_access_key, access.session_token)
    else:
        endpoint = arguments.endpoint
        region = arguments.region or await find_region(host_environment) or "us-east-1"
        source = _keys_for_any_store(host_environment, region)
    options = S3Options(
        bucket=arguments.bucket or f"{_SCRATCH}-{new_blob_id(host_environment.clock)}",
        prefix=arguments.prefix or "",
        region=region,
        endpoint=endpoint,
        path_style=not arguments.virtual_host,
        allow_http=True,  # the check says itself what plain HTTP means
    )
    return CheckedStore(
        options,
        region,
        makes_bucket=arguments.bucket is None,
        sts_endpoint=arguments.sts_endpoint,
        role_arn=arguments.role_arn,
        warehouse=arguments.warehouse or os.environ.get(WAREHOUSE_VARIABLE) or None,
        ca_bundle=ca_bundle,
        catalog_endpoint=catalog_endpoint,
    ), source


def _configured(store: S3StorageSettings, arguments: argparse.Namespace, region: str) -> S3Options:
    return S3Options(
        bucket=arguments.bucket or store.bucket,
        prefix=arguments.prefix if arguments.prefix is not None else store.prefix,
        region=region,
        endpoint=store.endpoint,
        path_style=False if arguments.virtual_host else store.path_style,
        allow_http=store.allow_http,
        connect_timeout_seconds=store.connect_timeout,
        read_timeout_seconds=store.read_timeout,
    )


def _keys_for_any_store(host_environment: HostEnvironment, region: str) -> CredentialSource:
    """Lakebed's own variables first, then all that AWS clients look at."""
    key, secret = host_environment.value("LAKEBED_ACCESS_KEY"), host_environment.value("LAKEBED_SECRET_KEY")
    own = InlineSource(key or None, Secret(secret) if secret else None)
    return CredentialChain([own, default_chain(host_environment, region=region)])


# -- what is printed ---------------------------------------------------------------------------------------------------


def _print(report: CheckReport) -> None:
    print(f"{report.endpoint}, bucket {report.bucket}\n")
    rows = [
        (
            result.step,
            result.outcome,
            "" if result.outcome is StepOutcome.SKIPPED else f"{result.seconds * 1000:.0f} ms",
            result.found or _first_words(result.why),
        )
        for result in report.results
    ]
    print_rows(("step", "outcome", "time", "found"), rows, as_json=False)
    for result in report.results:
        if result.why and result.outcome is not StepOutcome.SKIPPED:
            print(f"\n{result.step}: {result.why}.")
            if result.advice:
                print(f"  next: {result.advice}")
    for name in report.left_behind:
        print(f"\nleft behind, and to be removed by hand: {name}")
    failed = sum(result.outcome is StepOutcome.FAILED for result in report.results)
    print(f"\n{'all is well' if report.passed else f'{failed} of {len(report.results)} steps failed'}")


def _first_words(why: str) -> str:
    """As much of a reason as a table has room for."""
    head = why.partition(":")[0]
    return head if len(head) <= 60 else f"{head[:57]}…"


def _document(report: CheckReport) -> dict[str, object]:
    return {
        "endpoint": report.endpoint,
        "bucket": report.bucket,
        "well": report.passed,
        "steps": [asdict(result) for result in report.results],
        "left_behind": list(report.left_behind),
    }
