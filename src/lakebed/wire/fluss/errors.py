"""Maps errors to error codes of the protocol. Clients decide by the code whether to retry."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from lakebed.core import errors
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from . import messages_pb2 as pb

__all__ = ["UNKNOWN", "error_code", "failure_message", "set_failure"]

log = logging.getLogger("lakebed.streams")

UNKNOWN: Final = -1

_CODES: Final[tuple[tuple[type[LakebedError], ErrorCode], ...]] = (
    (errors.AccessDenied, ErrorCode.AUTHORIZATION),
    (errors.Unauthenticated, ErrorCode.AUTHENTICATE),
    (errors.Fenced, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (errors.Unavailable, ErrorCode.STORAGE),
    (errors.WriteConflict, ErrorCode.STORAGE),
    (errors.StorageFull, ErrorCode.STORAGE),
)
"""Codes for errors that are not FlussError; the first match counts."""


def error_code(error: LakebedError) -> int:
    """The protocol's number of the error; `UNKNOWN` for internal errors, which are not described to clients."""
    if isinstance(error, FlussError):
        return error.code.number
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code.number
    return UNKNOWN


def failure_message(error: LakebedError) -> pb.Failure:
    """The error response of a call. Logs internal errors, which clients see without their text."""
    code = error_code(error)
    if code == UNKNOWN and not isinstance(error, FlussError):
        log.warning("call failed", exc_info=error)
    return pb.Failure(error_code=code, error_message="internal error" if code == UNKNOWN else str(error))


class _Result(Protocol):
    error_code: int
    error_message: str


def set_failure(result: _Result, error: LakebedError) -> None:
    """Set the error of one result of a call."""
    failure = failure_message(error)
    result.error_code, result.error_message = failure.error_code, failure.error_message
