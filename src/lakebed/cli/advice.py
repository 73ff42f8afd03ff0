"""What to do next, for errors whose own words do not say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    Corrupted,
    ForeignStore,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    MissingExtra,
    NoSuchPrincipal,
    NotSupported,
    PipelineUnavailable,
    StateConflict,
    StorageFull,
    Unauthenticated,
    Unavailable,
    WriteConflict,
)

_ADVICE: Final[Mapping[type[LakebedError], str]] = {
    InvalidSetting: "Every setting and its default: lakebed config --defaults",
    InvalidInput: "Correct it and run the command again; --help says what is expected",
    NoSuchPrincipal: "See who exists: lakebed user list",
    AlreadyExists: "Choose another name, or use what is there",
    StateConflict: "Change that first, then run the command again",
    WriteConflict: "Run the command again",
    StorageFull: "Make room, then run the command again",
    Unavailable: "See that it runs and can be reached, then run the command again",
    ForeignStore: "See what belongs together: lakebed storage status",
    PipelineUnavailable: "",  # its message says what to do
    MissingExtra: "",  # likewise
    Unauthenticated: "See the credentials in use: lakebed credentials",
    AccessDenied: "Ask whoever has root's credentials",
    NotSupported: "See what is not supported: lakebed conform --print-unsupported-inventory",
    Corrupted: "Stop the server and restore from a backup before anything else",
}


def advice_for(error: LakebedError) -> str:
    """The advice of the error's class or its nearest ancestor that has one; else nothing."""
    return next((_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE), "")
