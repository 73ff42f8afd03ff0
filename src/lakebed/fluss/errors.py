"""Why a call of streams cannot be answered: one name a reason, which the edge has the protocol's number for."""

from __future__ import annotations

from enum import Enum

from lakebed.core.errors import LakebedError

__all__ = ["ErrorCode", "FlussError"]


class ErrorCode(Enum):
    """What is wrong, in the words of stream tables."""

    UNSUPPORTED_VERSION = "unsupported version"
    CORRUPT_MESSAGE = "corrupt message"
    NO_DATABASE = "no such database"
    DATABASE_NOT_EMPTY = "database not empty"
    DATABASE_EXISTS = "database exists"
    NO_TABLE = "no such table"
    TABLE_EXISTS = "table exists"
    NO_SCHEMA = "no such schema"
    LOG_STORAGE = "log cannot be stored"
    KEY_STORAGE = "keys cannot be stored"
    NOT_LEADER = "not led here"
    RECORD_TOO_LARGE = "record too large"
    CORRUPT_RECORD = "corrupt record"
    INVALID_TABLE = "invalid table"
    INVALID_DATABASE = "invalid database"
    INVALID_REPLICATION = "invalid replication factor"
    INVALID_ACKS = "invalid acks"
    OFFSET_OUT_OF_RANGE = "offset out of range"
    NOT_KEYED = "not a primary-key table"
    UNKNOWN_BUCKET = "unknown table or bucket"
    FENCED = "fenced leader epoch"
    TIMED_OUT = "request timed out"
    STORAGE = "storage failed"
    NO_KEYS_TO_FILES = "no keys to files"
    OUT_OF_ORDER = "out of order sequence"
    DUPLICATE_SEQUENCE = "duplicate sequence"
    UNKNOWN_WRITER = "unknown writer"
    INVALID_PROJECTION = "invalid projection"
    INVALID_TARGET_COLUMN = "invalid target column"
    NO_PARTITION = "no such partition"
    NOT_PARTITIONED = "table is not partitioned"
    INVALID_TIMESTAMP = "invalid timestamp"
    INVALID_CONFIG = "invalid config"
    LAKE_NOT_CONFIGURED = "lake storage not configured"
    NO_KEY_SNAPSHOT = "no such snapshot of keys"
    PARTITION_EXISTS = "partition exists"
    INVALID_PARTITION = "invalid partition"
    NO_LEADER = "leader not available"
    TOO_MANY_PARTITIONS = "too many partitions"
    AUTHENTICATION_FAILED = "authentication failed"
    SECURITY_DISABLED = "security disabled"
    NOT_AUTHORIZED = "not authorized"
    TOO_MANY_BUCKETS = "too many buckets"
    FENCED_TIERING = "fenced tiering epoch"
    RETRY_AUTHENTICATION = "authentication may be tried again"
    NO_LAKE_SNAPSHOT = "no such lake snapshot"
    LAKE_TABLE_EXISTS = "lake table exists"
    INVALID_ALTER = "invalid change of a table"
    DELETION_DISABLED = "deletion disabled"
    NO_SERVER = "no such server"
    SERVER_TAG_EXISTS = "server tag exists"
    NO_SERVER_TAG = "no such server tag"
    REBALANCE_FAILED = "rebalance failed"
    NO_REBALANCE = "no rebalance in progress"
    INVALID_PRODUCER = "invalid producer id"
    CONFIG_ERROR = "config error"
    SCANNER_EXPIRED = "scanner expired"
    UNKNOWN_SCANNER = "unknown scanner"
    INVALID_SCAN = "invalid scan request"
    TOO_MANY_SCANNERS = "too many scanners"
    BACKPRESSURE = "storage backpressure"


_PASSING = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NO_SCHEMA,
        ErrorCode.LOG_STORAGE,
        ErrorCode.KEY_STORAGE,
        ErrorCode.NOT_LEADER,
        ErrorCode.CORRUPT_RECORD,
        ErrorCode.UNKNOWN_BUCKET,
        ErrorCode.TIMED_OUT,
        ErrorCode.STORAGE,
        ErrorCode.NO_LEADER,
        ErrorCode.BACKPRESSURE,
    }
)


class FlussError(LakebedError):
    """A call of streams, or one bucket's part of it, cannot be answered; its reason says what the caller does next."""

    def __init__(self, reason: ErrorCode, message: str = "") -> None:
        super().__init__(message or reason.value)
        self.reason = reason

    @property
    def is_passing(self) -> bool:
        """Whether the same call can succeed later with nothing else changed."""
        return self.reason in _PASSING
