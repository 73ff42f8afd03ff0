"""The numbers that the protocol has for what can go wrong. Clients read from them whether to try again."""

from __future__ import annotations

from typing import Final

from lakebed.core import errors
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from . import messages_pb2 as pb

__all__ = ["UNKNOWN", "error_code", "failure_message"]

UNKNOWN: Final = -1

_KINDS: Final[tuple[tuple[type[LakebedError], ErrorCode], ...]] = (
    (errors.AccessDenied, ErrorCode.AUTHORIZATION),
    (errors.Unauthenticated, ErrorCode.AUTHENTICATE),
    (errors.Fenced, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (errors.Unavailable, ErrorCode.STORAGE),
    (errors.WriteConflict, ErrorCode.STORAGE),
    (errors.StorageFull, ErrorCode.STORAGE),
)
"""What other parts of the server raise. The first that fits is meant."""


def error_code(error: LakebedError) -> int:
    """The protocol's number for it; `UNKNOWN` for what clients are told nothing of."""
    if isinstance(error, FlussError):
        return error.code.number
    for kind, code in _KINDS:
        if isinstance(error, kind):
            return code.number
    return UNKNOWN


def failure_message(error: LakebedError) -> pb.Failure:
    """The answer to a call that failed as a whole."""
    code = error_code(error)
    return pb.Failure(error_code=code, error_message="internal error" if code == UNKNOWN else str(error))
