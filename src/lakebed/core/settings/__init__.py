"""Settings: one frozen tree of plain values, read once from defaults, a file, the environment and flags."""

from .address import Address
from .checks import active_master_key, check_settings, decode_master_key
from .description import describe
from .loading import CLIENT_VARIABLES, LoadedSettings, SettingsFile, environment_name, known_settings, load_settings
from .tree import (
    ConditionalPut,
    EncryptionSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    MetaSettings,
    ObjectsSettings,
    RetrySettings,
    RootSettings,
    S3StorageSettings,
    ServerSettings,
    Settings,
    StorageKind,
    StorageSettings,
    StsSettings,
    TablesSettings,
)

__all__ = [
    "CLIENT_VARIABLES",
    "Address",
    "ConditionalPut",
    "EncryptionSettings",
    "LoadedSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "MetaSettings",
    "ObjectsSettings",
    "RetrySettings",
    "RootSettings",
    "S3StorageSettings",
    "ServerSettings",
    "Settings",
    "SettingsFile",
    "StorageKind",
    "StorageSettings",
    "StsSettings",
    "TablesSettings",
    "active_master_key",
    "check_settings",
    "decode_master_key",
    "describe",
    "environment_name",
    "known_settings",
    "load_settings",
]
