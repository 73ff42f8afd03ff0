"""The maintenance configuration of a table, and where it comes from. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from lakebed.core.errors import InvalidInput

__all__ = ["DEFAULT_CONFIG", "ConfigSource", "EffectiveConfig", "MaintenanceConfig", "check_config"]

CONFIG_VERSION: Final = 1
MAX_SECONDS: Final = 86_400
MAX_RETRIES: Final = 10
MAX_RETENTION_SECONDS: Final = 10 * 365 * 86_400
MAX_RETAINED_FILES: Final = 1000


class ConfigSource(StrEnum):
    """Where the effective configuration of a table is set."""

    TABLE_OVERRIDE = "TABLE_OVERRIDE"
    TABLE_BUCKET_DEFAULT = "TABLE_BUCKET_DEFAULT"
    DEFAULT = "DEFAULT"


class MaintenanceConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The configuration of a table, or the default of a table bucket."""

    version: int
    retain_recent_metadata_files: int
    """How many of the newest metadata files are kept, with all files that they refer to."""
    delete_enabled: bool
    background_enabled: bool
    worker_paused: bool = False
    worker_lease_timeout_seconds: int = 900
    max_retry_attempts: int = 0
    """How often a job is tried; 0 or 1: once."""
    retry_initial_backoff_seconds: int = 0
    retry_max_backoff_seconds: int = 0
    quarantine_enabled: bool = False
    """Whether files are moved to quarantine instead of deleted."""
    quarantine_retention_seconds: int = 0


DEFAULT_CONFIG: Final = MaintenanceConfig(
    version=CONFIG_VERSION,
    retain_recent_metadata_files=0,
    delete_enabled=False,
    background_enabled=False,
    retry_initial_backoff_seconds=5,
    retry_max_backoff_seconds=300,
)


class EffectiveConfig(NamedTuple):
    """The configuration that applies to a table, and its source."""

    config: MaintenanceConfig
    source: ConfigSource


def check_config(config: MaintenanceConfig) -> MaintenanceConfig:
    """Validate a configuration. Raises InvalidInput that names the field."""
    if config.version != CONFIG_VERSION:
        raise _refusal("version", f"must be {CONFIG_VERSION}", config.version)
    _check_within("retain-recent-metadata-files", config.retain_recent_metadata_files, 0, MAX_RETAINED_FILES)
    _check_within("worker-lease-timeout-seconds", config.worker_lease_timeout_seconds, 1, MAX_SECONDS)
    _check_within("max-retry-attempts", config.max_retry_attempts, 0, MAX_RETRIES)
    # Without retries their backoff does not matter.
    least = 1 if config.max_retry_attempts else 0
    initial = config.retry_initial_backoff_seconds
    _check_within("retry-initial-backoff-seconds", initial, least, MAX_SECONDS)
    least = initial if config.max_retry_attempts else 0
    _check_within("retry-max-backoff-seconds", config.retry_max_backoff_seconds, least, MAX_SECONDS)
    least = 1 if config.quarantine_enabled else 0
    _check_within("quarantine-retention-seconds", config.quarantine_retention_seconds, least, MAX_RETENTION_SECONDS)
    return config


def _check_within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise _refusal(name, f"must be from {least} to {most}", value)


def _refusal(name: str, rule: str, value: int) -> InvalidInput:
    return InvalidInput(f"{name} {rule}. found={value}", argument=name, value=str(value))
