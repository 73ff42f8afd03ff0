"""The numbers that the protocol has for what can go wrong. Clients read from them whether to try again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core import errors
from lakebed.core.errors import LakebedError
from lakebed.streams.failures import Reason, StreamFailure

from . import messages_pb2 as pb

__all__ = ["UNKNOWN", "error_code", "failure_message"]

UNKNOWN: Final = -1

_CODES: Final[Mapping[Reason, int]] = {
    Reason.UNSUPPORTED_VERSION: 2,
    Reason.CORRUPT_MESSAGE: 3,
    Reason.NO_DATABASE: 4,
    Reason.DATABASE_NOT_EMPTY: 5,
    Reason.DATABASE_EXISTS: 6,
    Reason.NO_TABLE: 7,
    Reason.TABLE_EXISTS: 8,
    Reason.NO_SCHEMA: 9,
    Reason.LOG_STORAGE: 10,
    Reason.KEY_STORAGE: 11,
    Reason.NOT_LEADER: 12,
    Reason.RECORD_TOO_LARGE: 13,
    Reason.CORRUPT_RECORD: 14,
    Reason.INVALID_TABLE: 15,
    Reason.INVALID_DATABASE: 16,
    Reason.INVALID_REPLICATION: 17,
    Reason.INVALID_ACKS: 18,
    Reason.OFFSET_OUT_OF_RANGE: 19,
    Reason.NOT_KEYED: 20,
    Reason.UNKNOWN_BUCKET: 21,
    Reason.FENCED: 24,
    Reason.TIMED_OUT: 25,
    Reason.STORAGE: 26,
    Reason.NO_KEYS_TO_FILES: 30,
    Reason.OUT_OF_ORDER: 31,
    Reason.DUPLICATE_SEQUENCE: 32,
    Reason.UNKNOWN_WRITER: 33,
    Reason.INVALID_PROJECTION: 34,
    Reason.INVALID_TARGET_COLUMN: 35,
    Reason.NO_PARTITION: 36,
    Reason.NOT_PARTITIONED: 37,
    Reason.INVALID_TIMESTAMP: 38,
    Reason.INVALID_CONFIG: 39,
    Reason.LAKE_NOT_CONFIGURED: 40,
    Reason.NO_KEY_SNAPSHOT: 41,
    Reason.PARTITION_EXISTS: 42,
    Reason.INVALID_PARTITION: 43,
    Reason.NO_LEADER: 44,
    Reason.TOO_MANY_PARTITIONS: 45,
    Reason.AUTHENTICATION_FAILED: 46,
    Reason.SECURITY_DISABLED: 47,
    Reason.NOT_AUTHORIZED: 48,
    Reason.TOO_MANY_BUCKETS: 49,
    Reason.FENCED_TIERING: 50,
    Reason.RETRY_AUTHENTICATION: 51,
    Reason.NO_LAKE_SNAPSHOT: 53,
    Reason.LAKE_TABLE_EXISTS: 54,
    Reason.INVALID_ALTER: 56,
    Reason.DELETION_DISABLED: 57,
    Reason.NO_SERVER: 58,
    Reason.SERVER_TAG_EXISTS: 59,
    Reason.NO_SERVER_TAG: 60,
    Reason.REBALANCE_FAILED: 61,
    Reason.NO_REBALANCE: 62,
    Reason.INVALID_PRODUCER: 63,
    Reason.CONFIG_ERROR: 64,
    Reason.SCANNER_EXPIRED: 66,
    Reason.UNKNOWN_SCANNER: 67,
    Reason.INVALID_SCAN: 68,
    Reason.TOO_MANY_SCANNERS: 69,
    Reason.BACKPRESSURE: 72,
}

_KINDS: Final[tuple[tuple[type[LakebedError], Reason], ...]] = (
    (errors.AccessDenied, Reason.NOT_AUTHORIZED),
    (errors.Unauthenticated, Reason.AUTHENTICATION_FAILED),
    (errors.Fenced, Reason.NOT_LEADER),
    (errors.Unavailable, Reason.STORAGE),
    (errors.WriteConflict, Reason.STORAGE),
    (errors.StorageFull, Reason.STORAGE),
)
"""What other parts of the server raise. The first that fits is meant."""


def error_code(error: LakebedError) -> int:
    """The protocol's number for it; `UNKNOWN` for what clients are told nothing of."""
    if isinstance(error, StreamFailure):
        return _CODES[error.reason]
    for kind, reason in _KINDS:
        if isinstance(error, kind):
            return _CODES[reason]
    return UNKNOWN


def failure_message(error: LakebedError) -> pb.Failure:
    """The answer to a call that failed as a whole."""
    code = error_code(error)
    return pb.Failure(error_code=code, error_message="internal error" if code == UNKNOWN else str(error))
