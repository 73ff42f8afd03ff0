"""Structured logs: one JSON object or one line of text per record, with secrets redacted.

Records use the standard `logging` with fields in `extra`: `log.info("bucket swept", extra={"removed": 3})`. The access
log bypasses `logging`: it writes a line for every request, at the cost of one formatting and one write.
"""

from __future__ import annotations

import logging
import os
import re
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

from lakebed.core.clock import Clock
from lakebed.core.settings import LoggingFormat, LoggingSettings, LogLevel

HIDDEN: Final = "***"

# Secrets in URLs, header lines, and the repr of header pairs.
_NAMED_SECRET: Final = re.compile(
    r"""(?ix) (
        \b (?: x-amz-signature | x-amz-security-token | x-amz-server-side-encryption-customer-key
             | x-amz-copy-source-server-side-encryption-customer-key | signature | secret[_-]?access[_-]?key
             | secret[_-]?key | session[_-]?token | client[_-]?secret | access[_-]?token | password )
        (?: %3D | ["']? \s* [:=,] \s* b? ["']? )
    ) [^\s&"',;)}\]]+ """
)
_AUTHORIZATION: Final = re.compile(r"""(?i)(\b(?:proxy-)?authorization["']?\s*[:=,]\s*b?["']?)[^"'\r\n]+""")
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}")
_URL_PASSWORD: Final = re.compile(r"(://[^\s/:@]*:)[^\s/@]+@")
# The expressions cost microseconds; a line without any of these words has no match.
_SUSPICIOUS: Final = (
    "signature",
    "token",
    "secret",
    "authorization",
    "customer-key",
    "bearer",
    "basic",
    "password",
    "@",
)

_JSON: Final = msgspec.json.Encoder()
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def redact(text: str) -> str:
    """The text with secrets replaced by stars."""
    lowered = text.lower()
    for word in _SUSPICIOUS:
        if word in lowered:
            break
    else:
        return text
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    text = _NAMED_SECRET.sub(rf"\1{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    return _URL_PASSWORD.sub(rf"\1{HIDDEN}@", text)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the fields of `extra`, and the error, if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        line: dict[str, object] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in _fields(record):
            # A field must not replace a standard member of the record.
            line[f"field_{name}" if name in line or name == "error" else name] = _plain(value)
        if error := _error_text(self, record):
            line["error"] = error
        return _encode(line).decode()


class TextFormatter(logging.Formatter):
    """Plain text: time, level, message, then `name=value`; tracebacks follow on further lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, followed by the traceback of an error."""
        words = [_stamp(record.created), f"{record.levelname.lower():7}", record.name, redact(record.getMessage())]
        words += [f"{name}={_plain(value)}" for name, value in _fields(record)]
        # A line break inside a message would let a client forge a log line.
        line = " ".join(words).replace("\r", "\\r").replace("\n", "\\n")
        error = _error_text(self, record)
        return f"{line}\n{error}" if error else line


class AccessLog:
    """Writes a line for each request to a descriptor."""

    __slots__ = ("_as_json", "_clock", "_descriptor", "_second", "_second_text")

    def __init__(self, descriptor: int, log_format: LoggingFormat, clock: Clock) -> None:
        self._descriptor = descriptor
        self._as_json = log_format is LoggingFormat.JSON
        self._clock = clock
        self._second = -1
        self._second_text = ""

    def record(
        self,
        *,
        request_id: str,
        remote: str,
        principal: str,
        method: str,
        target: str,
        status: int,
        received_bytes: int,
        sent_bytes: int,
        seconds: float,
        delegation: str = "",
    ) -> None:
        """Write one line. A failed write loses the line and is ignored."""
        fields = {
            "time": self._now(),
            "logger": "lakebed.access",
            "request_id": request_id,
            "remote": remote,
            "principal": principal,
            "method": method,
            "target": redact(target),
            "status": status,
            "received_bytes": received_bytes,
            "sent_bytes": sent_bytes,
            "ms": round(seconds * 1000, 3),
        }
        if delegation:
            fields["delegation"] = delegation
        if self._as_json:
            line = _encode(fields) + b"\n"
        else:
            text = " ".join(str(value) for value in fields.values())
            line = text.replace("\r", "\\r").replace("\n", "\\n").encode(errors="backslashreplace") + b"\n"
        try:
            os.write(self._descriptor, line)
        except OSError:
            return

    def _now(self) -> str:
        second, ms = divmod(self._clock.now_ms(), 1000)
        if second != self._second:
            self._second, self._second_text = second, _stamp(second)[:-4]
        return f"{self._second_text}{ms:03}Z"


def configure_logs(settings: LoggingSettings, stream: TextIO) -> None:
    """Send the log records of the process to `stream`. A repeated call replaces the stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if settings.format is LoggingFormat.JSON else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_log_level(settings.level)
    logging.captureWarnings(True)


def set_log_level(level: LogLevel) -> None:
    """Log records of this level and above, in this process."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    # These log every statement or chunk at debug level.
    for library in ("asyncio", "botocore", "urllib3"):
        logging.getLogger(library).setLevel(max(logging.INFO, root.level))


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _encode(line: dict[str, object]) -> bytes:
    try:
        return _JSON.encode(line)
    except UnicodeEncodeError:
        # A name that is not UTF-8 is decoded with lone surrogates, which JSON cannot represent.
        return _JSON.encode({name: _escaped(value) for name, value in line.items()})


def _escaped(value: object) -> object:
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def _fields(record: logging.LogRecord) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(record).items() if name not in _STANDARD_FIELDS]


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))


def _error_text(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [formatter.formatException(record.exc_info)] if record.exc_info else []
    parts += [record.stack_info] if record.stack_info else []
    return redact("\n".join(parts))
