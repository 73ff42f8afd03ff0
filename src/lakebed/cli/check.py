"""`lakebed check storage`: tests an object store step by step."""

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
from lakebed.core.errors import InvalidInput
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

FAILED_STATUS: Final = 1
"""Exit status if a step failed or objects are left behind."""

_SCRATCH: Final = "lakebed-check"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subjects to check."""
    tasks = parser.add_subparsers(title="subjects", metavar="SUBJECT", required=True)
    text = "test an object store step by step: network, credentials, writes, reads, scope"
    storage = tasks.add_parser("storage", help=text, description=_DESCRIPTION, allow_abbrev=False)
    store = storage.add_argument_group("store", "Credentials come from the default AWS chain.")
    store.add_argument(
        "--endpoint", metavar="URL", help="an S3 endpoint (default: the storage backend in the settings)"
    )
    store.add_argument("--server", action="store_true", help="this server, also if its storage backend is S3")
    store.add_argument("--catalog", metavar="NAME", help="the external storage of a catalog, with its credentials")
    store.add_argument("--bucket", metavar="NAME", help="an existing bucket (default: create and remove one)")
    store.add_argument("--prefix", metavar="TEXT", help="use keys below this prefix")
    store.add_argument("--region", metavar="TEXT", help="the region of the signatures")
    store.add_argument(
        "--virtual-host", action="store_true", help="virtual-host style: the bucket is part of the host name"
    )
    store.add_argument("--sts-endpoint", metavar="URL", help="the STS endpoint (default: the store's)")
    store.add_argument("--role-arn", metavar="ARN", help="the role for AssumeRole, if the STS requires one")
    store.add_argument(
        "--warehouse", metavar="BUCKET", help=f"a table bucket: test vended credentials too [{WAREHOUSE_VARIABLE}]"
    )
    storage.add_argument("--json", action="store_true", help="print JSON")
    add_settings_flags(storage, serving=False)


_DESCRIPTION: Final = (
    "Tests an object store step by step, reports the step that fails and what to do, and cleans up. Without"
    " --endpoint it tests the storage backend in the settings, or the server itself if that is a folder. Exit status 0"
    f" if all steps passed, {FAILED_STATUS} if a step failed."
)


def run(arguments: argparse.Namespace) -> int:
    """Run the check, and print the report."""
    # The report replaces the log of the storage backend.
    logging.getLogger("lakebed.storage").addHandler(logging.NullHandler())
    report = asyncio.run(_check(arguments))
    if arguments.json:
        print_json(_document(report))
    else:
        _print(report)
    return 0 if report.passed else FAILED_STATUS


async def _check(arguments: argparse.Namespace) -> CheckReport:
    settings = read_settings(arguments).settings
    host_environment = HostEnvironment.of_this_machine()
    target, source = await _chosen(arguments, settings, host_environment)
    if not sys.stderr.isatty():
        return await check_store(target, source, host_environment, lambda step: None)
    from rich.console import Console

    with Console(stderr=True).status(f"checking {target.endpoint}") as status:

        def show_step(step: StepName) -> None:
            status.update(f"{step} …")

        return await check_store(target, source, host_environment, show_step)


async def _chosen(
    arguments: argparse.Namespace, settings: Settings, host_environment: HostEnvironment
) -> tuple[CheckedStore, CredentialSource]:
    """The store to check, and its credentials. Raises InvalidSetting."""
    ca_bundle = host_environment.value("AWS_CA_BUNDLE") or None
    if arguments.catalog is not None:
        return await _of_catalog(arguments.catalog, settings, ca_bundle)
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
        allow_http=True,  # the check reports plain HTTP itself
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


async def _of_catalog(name: str, settings: Settings, ca_bundle: str | None) -> tuple[CheckedStore, CredentialSource]:
    """The external storage of a catalog, and the credentials of its storage profile. Raises InvalidInput."""
    # Imported on demand: other checks need no metadata store.
    from lakebed.server.table_administration import opened_tables

    async with opened_tables(settings) as opened:
        catalog = await opened.catalogs.get(opened.root, name)
        if catalog.storage_revision is None:
            raise InvalidInput(
                f"the catalog's files are in a bucket of this server: use lakebed check storage. catalog={name}",
                argument="catalog",
            )
        profile, stores = (await opened.external.profiles.of(catalog)).profile, opened.external.stores
        region = profile.region or "us-east-1"
        options = S3Options(
            bucket=catalog.bucket_name,
            prefix=catalog.base_prefix,
            region=region,
            endpoint=profile.server_endpoint,
            path_style=profile.uses_path_style,
            allow_http=True,
        )
        return CheckedStore(
            options,
            region,
            sts_endpoint=profile.sts_endpoint or None,
            role_arn=profile.role_arn or None,
            external_id=profile.external_id or None,
            token_source=stores.base_source(profile) if profile.role_arn else None,
            ca_bundle=ca_bundle,
        ), stores.source(profile)


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
    """Lakebed's own variables, then the default AWS chain."""
    key, secret = host_environment.value("LAKEBED_ACCESS_KEY"), host_environment.value("LAKEBED_SECRET_KEY")
    own = InlineSource(key or None, Secret(secret) if secret else None)
    return CredentialChain([own, default_chain(host_environment, region=region)])


# -- output ---------------------------------------------------------------------------------------------------


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
        print(f"\nleft behind, remove it manually: {name}")
    failed = sum(result.outcome is StepOutcome.FAILED for result in report.results)
    print(f"\n{'all steps passed' if report.passed else f'{failed} of {len(report.results)} steps failed'}")


def _first_words(why: str) -> str:
    """The start of a reason, as long as the table allows."""
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
