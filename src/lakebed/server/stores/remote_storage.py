"""Opens the S3 storage backend from the settings: probed, with retries, and a buffered multipart writer."""

from __future__ import annotations

from lakebed.core.clock import Clock
from lakebed.core.errors import (
    AccessDenied,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    MissingExtra,
    NoSuchBucket,
    NotFound,
    Throttled,
    Unauthenticated,
    Unavailable,
)
from lakebed.core.settings import S3StorageSettings
from lakebed.core.settings.tree import ConditionalPut
from lakebed.objects.blobs.ingest import OpenWriter
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.budget import ByteBudget
from lakebed.storage.retry import RetryingStorage
from lakebed.storage.s3 import S3Options, connect_s3
from lakebed.storage.seam import Key, ObjectStorage
from lakebed.storage.writer import BufferedMultipartWriter, WriterSettings


def _retrier(settings: S3StorageSettings, clock: Clock) -> Retrier:
    retry = settings.retry
    policy = RetryPolicy(
        max_attempts=retry.max_attempts,
        base_seconds=retry.base,
        max_pause_seconds=retry.max,
        timeout_seconds=retry.timeout,
    )
    return Retrier(policy, clock)


def s3_options(settings: S3StorageSettings) -> S3Options:
    """The options of the S3 client. Raises InvalidSetting."""
    return S3Options(
        bucket=settings.bucket,
        prefix=settings.prefix,
        region=settings.region,
        endpoint=settings.endpoint,
        path_style=settings.path_style,
        allow_http=settings.allow_http,
        access_key_id=settings.access_key_id,
        secret_access_key=settings.secret_access_key,
        session_token=settings.session_token,
        max_concurrency=settings.max_concurrency,
        connect_timeout_seconds=settings.connect_timeout,
        read_timeout_seconds=settings.read_timeout,
        conditional_writes=settings.conditional_put is not ConditionalPut.DISABLED,
    )


async def open_remote(settings: S3StorageSettings, clock: Clock) -> tuple[ObjectStorage, OpenWriter]:
    """Connect and probe: the storage with retries, and writers for large bodies.

    The writers use the storage without retries, because they retry part by part. Raises as `connect_s3`.
    """
    try:
        store = await connect_s3(s3_options(settings))
    except LakebedError as error:
        raise connection_failure(error, settings) from error
    retrier = _retrier(settings, clock)
    return RetryingStorage(store, retrier), _writers(settings, store, retrier)


def connection_failure(error: LakebedError, settings: S3StorageSettings) -> LakebedError:
    """The error of a failed connection, with the store and the settings to check."""
    place = f"endpoint={settings.endpoint or 'AWS'} bucket={settings.bucket} reason={error}"
    if isinstance(error, MissingExtra):
        return error
    if isinstance(error, InvalidSetting):
        return InvalidSetting(f"storage.s3.{error}", argument=error.argument)
    if isinstance(error, NoSuchBucket):
        return InvalidSetting(f"storage.s3.bucket: the object store has no such bucket; create it first. {place}")
    if isinstance(error, Unauthenticated):
        return InvalidSetting(
            "storage.s3: the object store accepts none of the credentials; set storage.s3.access_key_id and"
            f" storage.s3.secret_access_key, or list the AWS credentials in use: lakebed check storage. {place}"
        )
    if isinstance(error, AccessDenied):
        return InvalidSetting(
            "storage.s3: the credentials lack a permission on the bucket; to find which: lakebed check storage."
            f" {place}"
        )
    if isinstance(error, Unavailable | Throttled):
        return Unavailable(f"the object store is unreachable: check storage.s3.endpoint and the network. {place}")
    if isinstance(error, NotFound | InvalidInput):
        return InvalidSetting(f"storage.s3.endpoint: not an S3 store. {place}")
    return error


def _writers(settings: S3StorageSettings, storage: ObjectStorage, retrier: Retrier) -> OpenWriter:
    """Multipart writers with one memory budget for the process."""
    budget = ByteBudget(settings.memory_budget)
    sizes = WriterSettings(part_size_bytes=settings.multipart_part_size, max_in_flight=settings.max_in_flight)

    def open_writer(key: Key) -> BufferedMultipartWriter:
        return BufferedMultipartWriter(storage, key, settings=sizes, retrier=retrier, budget=budget)

    return open_writer
