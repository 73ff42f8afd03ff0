"""Opens an S3 store from its options: region, credentials, client, probe."""

from __future__ import annotations

import asyncio

from ...core.errors import InvalidSetting
from ...core.extras import require_extra
from ...core.ids import new_blob_id
from ..credentials import CredentialProvider, HostEnvironment, RefreshingCredentials, default_chain
from ..credentials.profile import find_region
from ..probe import CONDITIONS_TRUSTED, NO_CONDITIONS, Capabilities, probe_conditions
from ..seam import Key
from .encoding import S3Encoding
from .executor import S3Executor
from .options import S3Options
from .request import S3Client
from .storage import S3Storage


async def connect_s3(
    options: S3Options,
    host_environment: HostEnvironment | None = None,
    *,
    credentials: CredentialProvider | None = None,
    capabilities: Capabilities | None = None,
) -> S3Storage:
    """Open a store. It is probed unless its `capabilities` are known or conditional writes are off.

    `credentials` replaces the credential chain. Raises NotSupported if the store ignores conditions, InvalidSetting if
    the store cannot be found, and any error of the first requests.
    """
    environment = host_environment or HostEnvironment.of_this_machine()
    region = await region_of(options, environment)
    provider = credentials or credentials_of(options, environment, region)
    known = capabilities if options.conditional_writes else NO_CONDITIONS
    client = await asyncio.to_thread(_make_client, options, region)
    storage = S3Storage(
        S3Executor(client, provider, options.max_concurrency),
        S3Encoding(options.key_prefix, options.checksum, known or CONDITIONS_TRUSTED),
        bulk_delete=options.bulk_delete,
    )
    if known is None:
        try:
            await probe_conditions(storage, Key(f"lakebed-probe/{new_blob_id(environment.clock)}"))
        except BaseException:
            await asyncio.shield(storage.close())
            raise
    return storage


def credentials_of(options: S3Options, host_environment: HostEnvironment, region: str) -> CredentialProvider:
    """Credentials for the store, by the chain."""
    chain = default_chain(
        host_environment,
        access_key_id=options.access_key_id,
        secret_access_key=options.secret_access_key,
        session_token=options.session_token,
        region=region,
        imdsv1_fallback=options.imdsv1_fallback,
    )
    return RefreshingCredentials(chain, host_environment.clock)


async def region_of(options: S3Options, host_environment: HostEnvironment) -> str:
    """The region of the options, environment or profile. Raises InvalidSetting if none is set and one is required."""
    if options.region is not None:
        return options.region
    found = await find_region(host_environment)
    if found is not None:
        return found
    if options.endpoint is None:
        raise InvalidSetting("region: missing, as are AWS_REGION and a region in the AWS profile", argument="region")
    return "us-east-1"  # accepted by stores without regions


def _make_client(options: S3Options, region: str) -> S3Client:
    require_extra("s3", "storage on S3")
    # Imported on demand: the library is an extra, and slow to load.
    from .client import BotoClient

    return BotoClient(options, region)
