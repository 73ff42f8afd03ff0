from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lakebed.catalog.maintenance.jobs.config import DEFAULT_CONFIG, ConfigSource, MaintenanceConfig, check_config
from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchCatalog, NoSuchTable
from tests.catalog.harness import UNPRIVILEGED, name, user_with
from tests.catalog.maintenance.job_catalog import JobCatalog
from tests.objects.stores import ROOT


def changed(**fields: Any) -> MaintenanceConfig:
    config: MaintenanceConfig = msgspec.structs.replace(DEFAULT_CONFIG, **fields)
    return config


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"worker_lease_timeout_seconds": 1},
        {"worker_lease_timeout_seconds": 86_400},
        {"max_retry_attempts": 10, "retry_initial_backoff_seconds": 1, "retry_max_backoff_seconds": 1},
        {"max_retry_attempts": 1, "retry_initial_backoff_seconds": 86_400, "retry_max_backoff_seconds": 86_400},
        {"max_retry_attempts": 0, "retry_initial_backoff_seconds": 0, "retry_max_backoff_seconds": 0},
        {"max_retry_attempts": 0, "retry_initial_backoff_seconds": 9, "retry_max_backoff_seconds": 3},
        {"quarantine_enabled": True, "quarantine_retention_seconds": 1},
        {"retain_recent_metadata_files": 1000},
    ],
)
def test_valid_configuration_is_accepted(fields: dict[str, Any]) -> None:
    config = changed(**fields)
    assert check_config(config) is config


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"version": 2}, "version"),
        ({"version": 0}, "version"),
        ({"retain_recent_metadata_files": -1}, "retain-recent-metadata-files"),
        ({"retain_recent_metadata_files": 1001}, "retain-recent-metadata-files"),
        ({"worker_lease_timeout_seconds": 0}, "worker-lease-timeout-seconds"),
        ({"worker_lease_timeout_seconds": 86_401}, "worker-lease-timeout-seconds"),
        ({"max_retry_attempts": 11}, "max-retry-attempts"),
        ({"max_retry_attempts": -1}, "max-retry-attempts"),
        ({"max_retry_attempts": 1, "retry_initial_backoff_seconds": 0}, "retry-initial-backoff-seconds"),
        ({"max_retry_attempts": 1, "retry_initial_backoff_seconds": 86_401}, "retry-initial-backoff-seconds"),
        ({"max_retry_attempts": 1, "retry_max_backoff_seconds": 4}, "retry-max-backoff-seconds"),
        ({"max_retry_attempts": 1, "retry_max_backoff_seconds": 86_401}, "retry-max-backoff-seconds"),
        ({"retry_initial_backoff_seconds": -1}, "retry-initial-backoff-seconds"),
        ({"quarantine_enabled": True}, "quarantine-retention-seconds"),
        ({"quarantine_retention_seconds": -1}, "quarantine-retention-seconds"),
    ],
)
def test_error_names_the_invalid_field(fields: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_config(changed(**fields))
    assert refused.value.argument == argument


async def test_table_configuration_overrides_bucket_and_built_in_defaults(job_catalog: JobCatalog) -> None:
    configs, table = job_catalog.maintenance.configs, await job_catalog.table()
    assert await configs.get(ROOT, "lake", table) == (DEFAULT_CONFIG, ConfigSource.DEFAULT)
    default, own = changed(background_enabled=True), changed(delete_enabled=True)
    assert await configs.put_default(ROOT, "lake", default) == (default, ConfigSource.TABLE_BUCKET_DEFAULT)
    assert await configs.get(ROOT, "lake", table) == (default, ConfigSource.TABLE_BUCKET_DEFAULT)
    assert await configs.put(ROOT, "lake", table, own) == (own, ConfigSource.TABLE_OVERRIDE)
    assert await configs.get(ROOT, "lake", table) == (own, ConfigSource.TABLE_OVERRIDE)
    assert await configs.get_default(ROOT, "lake") == (default, ConfigSource.TABLE_BUCKET_DEFAULT)
    assert await configs.put(ROOT, "lake", table, None) == (default, ConfigSource.TABLE_BUCKET_DEFAULT)
    assert await configs.put_default(ROOT, "lake", None) == (DEFAULT_CONFIG, ConfigSource.DEFAULT)
    assert await configs.get(ROOT, "lake", table) == (DEFAULT_CONFIG, ConfigSource.DEFAULT)


async def test_configuration_is_deleted_with_its_table(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    await light_job_catalog.configure(table, delete_enabled=True)
    await light_job_catalog.run(table)
    await light_job_catalog.catalog.drop()
    again = await light_job_catalog.table()
    effective = await light_job_catalog.maintenance.configs.get(ROOT, "lake", again)
    assert effective.source is ConfigSource.DEFAULT
    assert (await light_job_catalog.view(again)).timeline == []


async def test_setting_a_configuration_emits_an_event(light_job_catalog: JobCatalog) -> None:
    table = await light_job_catalog.table()
    before = await light_job_catalog.catalog.last_event()
    await light_job_catalog.configure(table)
    await light_job_catalog.maintenance.configs.put_default(ROOT, "lake", DEFAULT_CONFIG)
    events = await light_job_catalog.catalog.events(before)
    assert [kind for kind, _ in events] == ["TableMaintenanceConfigured", "TableBucketMaintenanceConfigured"]


async def test_operations_require_separate_permissions(light_job_catalog: JobCatalog) -> None:
    configs, table = light_job_catalog.maintenance.configs, await light_job_catalog.table()
    reads, writes = (
        user_with("s3tables:GetTableMaintenanceConfiguration"),
        user_with("s3tables:PutTableMaintenanceConfiguration"),
    )
    await configs.get(reads, "lake", table)
    await configs.get_default(reads, "lake")
    await configs.put(writes, "lake", table, DEFAULT_CONFIG)
    await configs.put_default(writes, "lake", DEFAULT_CONFIG)
    for caller in (UNPRIVILEGED, writes):
        with pytest.raises(AccessDenied):
            await configs.get(caller, "lake", table)
        with pytest.raises(AccessDenied):
            await configs.get_default(caller, "lake")
    for caller in (UNPRIVILEGED, reads):
        with pytest.raises(AccessDenied):
            await configs.put(caller, "lake", table, DEFAULT_CONFIG)
        with pytest.raises(AccessDenied):
            await configs.put_default(caller, "lake", None)


async def test_missing_table_has_no_configuration(light_job_catalog: JobCatalog) -> None:
    configs = light_job_catalog.maintenance.configs
    with pytest.raises(NoSuchTable):
        await configs.get(ROOT, "lake", name("absent"))
    with pytest.raises(NoSuchTable):
        await configs.put(ROOT, "lake", name("absent"), DEFAULT_CONFIG)
    with pytest.raises(NoSuchCatalog):
        await configs.get_default(ROOT, "absent")
    await light_job_catalog.catalog.create_view("v")
    with pytest.raises(NoSuchTable):
        await configs.put(ROOT, "lake", name("v"), DEFAULT_CONFIG)
