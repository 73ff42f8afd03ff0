"""Settings: one frozen tree of plain values, read once from defaults, a file, the environment and flags."""

from .address import HostPort
from .checks import active_master_key, check_settings, decode_master_key
from .decisions import DecisionMode, DecisionsSettings
from .description import describe
from .external_storage import ExternalStorageSettings, StorageCredentials
from .federation import FederationSettings
from .identities import OidcProvider, OidcSettings, TokenMode, TokensSettings
from .listeners import HookFailure, ListenerHook, ListenersSettings, TargetEntry, TargetsSettings
from .loading import CLIENT_VARIABLES, LoadedSettings, SettingsFile, environment_name, known_settings, load_settings
from .selects import SelectSettings
from .streams import StreamsSettings
from .tree import (
    CommitValidation,
    ConditionalPut,
    EmbeddedWorker,
    EncryptionSettings,
    LoggingFormat,
    LoggingSettings,
    LogLevel,
    MetaSettings,
    ObjectsSettings,
    PipelineDelegation,
    PipelineSettings,
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
    "CommitValidation",
    "ConditionalPut",
    "DecisionMode",
    "DecisionsSettings",
    "EmbeddedWorker",
    "EncryptionSettings",
    "ExternalStorageSettings",
    "FederationSettings",
    "HookFailure",
    "HostPort",
    "ListenerHook",
    "ListenersSettings",
    "LoadedSettings",
    "LogLevel",
    "LoggingFormat",
    "LoggingSettings",
    "MetaSettings",
    "ObjectsSettings",
    "OidcProvider",
    "OidcSettings",
    "PipelineDelegation",
    "PipelineSettings",
    "RetrySettings",
    "RootSettings",
    "S3StorageSettings",
    "SelectSettings",
    "ServerSettings",
    "Settings",
    "SettingsFile",
    "StorageCredentials",
    "StorageKind",
    "StorageSettings",
    "StreamsSettings",
    "StsSettings",
    "TablesSettings",
    "TargetEntry",
    "TargetsSettings",
    "TokenMode",
    "TokensSettings",
    "active_master_key",
    "check_settings",
    "decode_master_key",
    "describe",
    "environment_name",
    "known_settings",
    "load_settings",
]
