"""Error codes of the Fluss protocol, with the names of Fluss's `Errors` without `_EXCEPTION`."""

from __future__ import annotations

from enum import Enum
from typing import Final, Self

from lakebed.core.errors import LakebedError

__all__ = ["ErrorCode", "FlussError"]


class ErrorCode(Enum):
    """An error code: its number on the wire, and its message."""

    number: int
    message: str
    """The text of an error without details."""

    def __new__(cls, number: int, message: str) -> Self:
        """Create the member from its number and message."""
        code = object.__new__(cls)
        code._value_ = code.number = number
        code.message = message
        return code

    UNSUPPORTED_VERSION = 2, "unsupported version"
    CORRUPT_MESSAGE = 3, "corrupt message"
    DATABASE_NOT_EXIST = 4, "no such database"
    DATABASE_NOT_EMPTY = 5, "database not empty"
    DATABASE_ALREADY_EXIST = 6, "database exists"
    TABLE_NOT_EXIST = 7, "no such table"
    TABLE_ALREADY_EXIST = 8, "table exists"
    SCHEMA_NOT_EXIST = 9, "no such schema"
    LOG_STORAGE = 10, "log cannot be stored"
    KV_STORAGE = 11, "KV index cannot be stored"
    NOT_LEADER_OR_FOLLOWER = 12, "not the leader of this bucket"
    RECORD_TOO_LARGE = 13, "record too large"
    CORRUPT_RECORD = 14, "corrupt record"
    INVALID_TABLE = 15, "invalid table"
    INVALID_DATABASE = 16, "invalid database"
    INVALID_REPLICATION_FACTOR = 17, "invalid replication factor"
    INVALID_REQUIRED_ACKS = 18, "invalid acks"
    LOG_OFFSET_OUT_OF_RANGE = 19, "offset out of range"
    NON_PRIMARY_KEY_TABLE = 20, "not a primary-key table"
    UNKNOWN_TABLE_OR_BUCKET = 21, "unknown table or bucket"
    FENCED_LEADER_EPOCH = 24, "fenced leader epoch"
    REQUEST_TIME_OUT = 25, "request timed out"
    STORAGE = 26, "storage failed"
    SECURITY_TOKEN = 30, "no credentials for files"
    OUT_OF_ORDER_SEQUENCE = 31, "out of order sequence"
    DUPLICATE_SEQUENCE = 32, "duplicate sequence"
    UNKNOWN_WRITER_ID = 33, "unknown writer"
    INVALID_COLUMN_PROJECTION = 34, "invalid projection"
    INVALID_TARGET_COLUMN = 35, "invalid target column"
    PARTITION_NOT_EXISTS = 36, "no such partition"
    TABLE_NOT_PARTITIONED = 37, "table is not partitioned"
    INVALID_TIMESTAMP = 38, "invalid timestamp"
    INVALID_CONFIG = 39, "invalid config"
    LAKE_STORAGE_NOT_CONFIGURED = 40, "lake storage not configured"
    KV_SNAPSHOT_NOT_EXIST = 41, "no such KV snapshot"
    PARTITION_ALREADY_EXISTS = 42, "partition exists"
    PARTITION_SPEC_INVALID = 43, "invalid partition"
    LEADER_NOT_AVAILABLE = 44, "leader not available"
    PARTITION_MAX_NUM = 45, "too many partitions"
    AUTHENTICATE = 46, "authentication failed"
    SECURITY_DISABLED = 47, "security disabled"
    AUTHORIZATION = 48, "not authorized"
    BUCKET_MAX_NUM = 49, "too many buckets"
    FENCED_TIERING_EPOCH = 50, "fenced tiering epoch"
    RETRIABLE_AUTHENTICATE = 51, "authentication failed, retry"
    LAKE_SNAPSHOT_NOT_EXIST = 53, "no such lake snapshot"
    LAKE_TABLE_ALREADY_EXIST = 54, "lake table exists"
    INVALID_ALTER_TABLE = 56, "invalid alteration of a table"
    DELETION_DISABLED = 57, "deletion disabled"
    SERVER_NOT_EXIST = 58, "no such server"
    SERVER_TAG_ALREADY_EXIST = 59, "server tag exists"
    SERVER_TAG_NOT_EXIST = 60, "no such server tag"
    REBALANCE_FAILURE = 61, "rebalance failed"
    NO_REBALANCE_IN_PROGRESS = 62, "no rebalance in progress"
    INVALID_PRODUCER_ID = 63, "invalid producer id"
    CONFIG = 64, "config error"
    SCANNER_EXPIRED = 66, "scanner expired"
    UNKNOWN_SCANNER_ID = 67, "unknown scanner"
    INVALID_SCAN_REQUEST = 68, "invalid scan request"
    TOO_MANY_SCANNERS = 69, "too many scanners"
    STORAGE_BACKPRESSURE = 72, "storage backpressure"


_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.SCHEMA_NOT_EXIST,
        ErrorCode.LOG_STORAGE,
        ErrorCode.KV_STORAGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.CORRUPT_RECORD,
        ErrorCode.UNKNOWN_TABLE_OR_BUCKET,
        ErrorCode.REQUEST_TIME_OUT,
        ErrorCode.STORAGE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.STORAGE_BACKPRESSURE,
    }
)


class FlussError(LakebedError):
    """A stream request, or its part for one bucket, failed. The code determines what clients do next."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.message)
        self.code = code

    @property
    def is_retriable(self) -> bool:
        """Whether the same request can succeed later."""
        return self.code in _RETRIABLE
