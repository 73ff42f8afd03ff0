"""Advice on what to do next, by error class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Corrupted,
    CredentialsExpired,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    MissingExtra,
    NoSuchAccessKey,
    NoSuchBucket,
    NoSuchCatalog,
    NoSuchPrincipal,
    NoSuchUserPolicy,
    NotSupported,
    PipelineUnavailable,
    StateConflict,
    StorageFull,
    StoreMismatch,
    Unauthenticated,
    Unavailable,
    WriteConflict,
)

_ADVICE: Final[Mapping[type[LakebedError], str]] = {
    InvalidSetting: "List all settings: lakebed config --defaults",
    InvalidInput: "Correct it and run the command again; see --help",
    NoSuchPrincipal: "List users: lakebed user list",
    NoSuchAccessKey: "List keys: lakebed key list",
    NoSuchUserPolicy: "List a user's policies: lakebed policy list USER; canned policies: lakebed policy list",
    NoSuchBucket: "Create it with an S3 client, or correct its name",
    NoSuchCatalog: "Create the bucket, then enable it: lakebed table enable-bucket BUCKET",
    AlreadyExists: "Choose another name, or use the existing one",
    StateConflict: "Resolve this, then run the command again",
    WriteConflict: "Run the command again",
    StorageFull: "Free space, then run the command again",
    Unavailable: "Check that the server runs and is reachable, then run the command again",
    StoreMismatch: "Show the store's deployment: lakebed storage status",
    PipelineUnavailable: "",  # the message contains the advice
    MissingExtra: "",  # likewise
    Unauthenticated: "Set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY; root's credentials: lakebed credentials --show",
    CredentialsExpired: "Use another key, or create one: lakebed key create USER",
    AccessDenied: "Use credentials with the permission, such as root's",
    NotSupported: "List unsupported features: lakebed conform --print-unsupported-inventory",
    Corrupted: "Stop the server and restore from a backup",
}


def advice_for(error: LakebedError) -> str:
    """The advice for the error's class or its nearest base class; empty without one."""
    return next((_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE), "")
