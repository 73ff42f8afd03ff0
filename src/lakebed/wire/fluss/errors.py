"""The numbers that the protocol has for what can go wrong. Clients read from them whether to try again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core import errors
from lakebed.core.errors import LakebedError
from lakebed.fluss.errors import ErrorCode, FlussError

from . import messages_pb2 as pb

__all__ = ["UNKNOWN", "error_code", "failure_message"]

UNKNOWN: Final = -1

_CODES: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.UNSUPPORTED_VERSION: 2,
    ErrorCode.CORRUPT_MESSAGE: 3,
    ErrorCode.NO_DATABASE: 4,
    ErrorCode.DATABASE_NOT_EMPTY: 5,
    ErrorCode.DATABASE_EXISTS: 6,
    ErrorCode.NO_TABLE: 7,
    ErrorCode.TABLE_EXISTS: 8,
    ErrorCode.NO_SCHEMA: 9,
    ErrorCode.LOG_STORAGE: 10,
    ErrorCode.KEY_STORAGE: 11,
    ErrorCode.NOT_LEADER: 12,
    ErrorCode.RECORD_TOO_LARGE: 13,
    ErrorCode.CORRUPT_RECORD: 14,
    ErrorCode.INVALID_TABLE: 15,
    ErrorCode.INVALID_DATABASE: 16,
    ErrorCode.INVALID_REPLICATION: 17,
    ErrorCode.INVALID_ACKS: 18,
    ErrorCode.OFFSET_OUT_OF_RANGE: 19,
    ErrorCode.NOT_KEYED: 20,
    ErrorCode.UNKNOWN_BUCKET: 21,
    ErrorCode.FENCED: 24,
    ErrorCode.TIMED_OUT: 25,
    ErrorCode.STORAGE: 26,
    ErrorCode.NO_KEYS_TO_FILES: 30,
    ErrorCode.OUT_OF_ORDER: 31,
    ErrorCode.DUPLICATE_SEQUENCE: 32,
    ErrorCode.UNKNOWN_WRITER: 33,
    ErrorCode.INVALID_PROJECTION: 34,
    ErrorCode.INVALID_TARGET_COLUMN: 35,
    ErrorCode.NO_PARTITION: 36,
    ErrorCode.NOT_PARTITIONED: 37,
    ErrorCode.INVALID_TIMESTAMP: 38,
    ErrorCode.INVALID_CONFIG: 39,
    ErrorCode.LAKE_NOT_CONFIGURED: 40,
    ErrorCode.NO_KEY_SNAPSHOT: 41,
    ErrorCode.PARTITION_EXISTS: 42,
    ErrorCode.INVALID_PARTITION: 43,
    ErrorCode.NO_LEADER: 44,
    ErrorCode.TOO_MANY_PARTITIONS: 45,
    ErrorCode.AUTHENTICATION_FAILED: 46,
    ErrorCode.SECURITY_DISABLED: 47,
    ErrorCode.NOT_AUTHORIZED: 48,
    ErrorCode.TOO_MANY_BUCKETS: 49,
    ErrorCode.FENCED_TIERING: 50,
    ErrorCode.RETRY_AUTHENTICATION: 51,
    ErrorCode.NO_LAKE_SNAPSHOT: 53,
    ErrorCode.LAKE_TABLE_EXISTS: 54,
    ErrorCode.INVALID_ALTER: 56,
    ErrorCode.DELETION_DISABLED: 57,
    ErrorCode.NO_SERVER: 58,
    ErrorCode.SERVER_TAG_EXISTS: 59,
    ErrorCode.NO_SERVER_TAG: 60,
    ErrorCode.REBALANCE_FAILED: 61,
    ErrorCode.NO_REBALANCE: 62,
    ErrorCode.INVALID_PRODUCER: 63,
    ErrorCode.CONFIG_ERROR: 64,
    ErrorCode.SCANNER_EXPIRED: 66,
    ErrorCode.UNKNOWN_SCANNER: 67,
    ErrorCode.INVALID_SCAN: 68,
    ErrorCode.TOO_MANY_SCANNERS: 69,
    ErrorCode.BACKPRESSURE: 72,
}

_KINDS: Final[tuple[tuple[type[LakebedError], ErrorCode], ...]] = (
    (errors.AccessDenied, ErrorCode.NOT_AUTHORIZED),
    (errors.Unauthenticated, ErrorCode.AUTHENTICATION_FAILED),
    (errors.Fenced, ErrorCode.NOT_LEADER),
    (errors.Unavailable, ErrorCode.STORAGE),
    (errors.WriteConflict, ErrorCode.STORAGE),
    (errors.StorageFull, ErrorCode.STORAGE),
)
"""What other parts of the server raise. The first that fits is meant."""


def error_code(error: LakebedError) -> int:
    """The protocol's number for it; `UNKNOWN` for what clients are told nothing of."""
    if isinstance(error, FlussError):
        return _CODES[error.reason]
    for kind, reason in _KINDS:
        if isinstance(error, kind):
            return _CODES[reason]
    return UNKNOWN


def failure_message(error: LakebedError) -> pb.Failure:
    """The answer to a call that failed as a whole."""
    code = error_code(error)
    return pb.Failure(error_code=code, error_message="internal error" if code == UNKNOWN else str(error))
