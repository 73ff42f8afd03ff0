"""Wires external storage: storage profiles of catalogs, their object stores and the files in them."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.external.storage.files import RETRIES, FilesByStorage
from lakebed.catalog.external.storage.model import StorageProfile
from lakebed.catalog.external.storage.profiles import StorageProfiles
from lakebed.catalog.external.storage.stores import ExternalStores
from lakebed.catalog.tables.files import TableFiles
from lakebed.core.clock import Clock
from lakebed.core.settings import ExternalStorageSettings, S3StorageSettings
from lakebed.meta.seam import MetaStore
from lakebed.net.hosts import AllowedHosts
from lakebed.objects.buckets.bucket import external_bucket_name
from lakebed.storage.backoff import Retrier
from lakebed.storage.credentials import HostEnvironment


@dataclass(frozen=True, slots=True)
class ExternalStorage:
    """The parts of external storage. `close` the stores at the end."""

    profiles: StorageProfiles
    stores: ExternalStores
    files: FilesByStorage


def wire_external_storage(
    settings: ExternalStorageSettings,
    meta: MetaStore,
    clock: Clock,
    served: TableFiles,
    own_store: S3StorageSettings | None = None,
) -> ExternalStorage:
    """External storage beside the files in buckets of this server, whose own object store is `own_store`."""
    hosts = AllowedHosts(settings.hosts, setting="external_storage.hosts")
    profiles = StorageProfiles(
        meta,
        hosts,
        credentials=settings.credentials,
        default_credentials=settings.default_credentials,
        allow_http=settings.allow_http,
        own_bucket=None if own_store is None else _own_bucket(own_store),
    )
    stores = ExternalStores(settings, hosts, clock, HostEnvironment.of_this_machine(clock=clock))
    return ExternalStorage(profiles, stores, FilesByStorage(served, profiles, stores, Retrier(RETRIES, clock)))


def _own_bucket(store: S3StorageSettings) -> str:
    return external_bucket_name(StorageProfile(endpoint=store.endpoint or "").authority, store.bucket)
