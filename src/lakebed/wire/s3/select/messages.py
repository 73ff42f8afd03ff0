"""Event stream messages of a SelectObjectContent response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakebed.core.event_stream import OVERHEAD_BYTES, encode_headers, frame
from lakebed.select.model import QueryStats

__all__ = ["CONTINUATION", "END", "MAX_MESSAGE_BYTES", "MAX_RECORDS_BYTES", "error", "progress", "records", "stats"]

MAX_MESSAGE_BYTES: Final = 128 * 1024 - 256
"""Maximum message size. The decoder of the AWS SDK for Java has a buffer of 128 KiB."""

_MAX_ERROR_BYTES: Final = 4096
"""Maximum size of an error text, which may quote the request: header values are limited."""


def _event(name: str, content_type: str | None = None) -> bytes:
    headers = [(":message-type", "event"), (":event-type", name)]
    if content_type is not None:
        headers.append((":content-type", content_type))
    return encode_headers(headers)


_RECORDS: Final = _event("Records", "application/octet-stream")
_PROGRESS: Final = _event("Progress", "text/xml")
_STATS: Final = _event("Stats", "text/xml")

MAX_RECORDS_BYTES: Final = MAX_MESSAGE_BYTES - OVERHEAD_BYTES - len(_RECORDS)
"""Maximum size of the records in a message. Records may span messages."""

CONTINUATION: Final = frame(_event("Cont"))
"""Keep-alive without data. Sending it also detects a disconnected client."""

END: Final = frame(_event("End"))
"""End of a complete response."""


def records(piece: bytes) -> Iterator[bytes]:
    """Records messages for a piece of data."""
    view = memoryview(piece)
    for start in range(0, len(piece), MAX_RECORDS_BYTES):
        yield frame(_RECORDS, view[start : start + MAX_RECORDS_BYTES])


def progress(counts: QueryStats) -> bytes:
    """A Progress message."""
    return frame(_PROGRESS, _document("Progress", counts))


def stats(counts: QueryStats) -> bytes:
    """A Stats message."""
    return frame(_STATS, _document("Stats", counts))


def error(code: str, message: str) -> bytes:
    """An error message, which ends the response."""
    text = message.encode("utf-8", "replace")[:_MAX_ERROR_BYTES].decode("utf-8", "ignore")
    return frame(encode_headers([(":message-type", "error"), (":error-code", code), (":error-message", text)]))


def _document(root: str, counts: QueryStats) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><{root}><BytesScanned>{counts.scanned}</BytesScanned>'
        f"<BytesProcessed>{counts.processed}</BytesProcessed><BytesReturned>{counts.returned}</BytesReturned></{root}>"
    ).encode()
