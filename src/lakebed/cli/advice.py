"""What to do next, for errors whose own words do not say it."""

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
    InvalidSetting: "Every setting and its default: lakebed config --defaults",
    InvalidInput: "Correct it and run the command again; --help says what is expected",
    NoSuchPrincipal: "See who exists: lakebed user list",
    NoSuchAccessKey: "List those that exist: lakebed key list",
    NoSuchUserPolicy: "See a user's policies: lakebed policy list USER; those to attach: lakebed policy list",
    NoSuchBucket: "Create it with an S3 client first, or correct its name",
    NoSuchCatalog: "Create the bucket, then enable it: lakebed table enable-bucket BUCKET",
    AlreadyExists: "Choose another name, or use what is there",
    StateConflict: "Change that first, then run the command again",
    WriteConflict: "Run the command again",
    StorageFull: "Make room, then run the command again",
    Unavailable: "See that it runs and can be reached, then run the command again",
    StoreMismatch: "See what belongs together: lakebed storage status",
    PipelineUnavailable: "",  # its message says what to do
    MissingExtra: "",  # likewise
    Unauthenticated: "Set LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY; root's keys: lakebed credentials --show",
    CredentialsExpired: "Use another key, or have one made: lakebed key create USER",
    AccessDenied: "Ask whoever has root's credentials",
    NotSupported: "See what is not supported: lakebed conform --print-unsupported-inventory",
    Corrupted: "Stop the server and restore from a backup before anything else",
}


def advice_for(error: LakebedError) -> str:
    """The advice of the error's class or its nearest ancestor that has one; else nothing."""
    return next((_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE), "")
