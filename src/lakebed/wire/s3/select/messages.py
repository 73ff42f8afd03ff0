"""The messages that answer a select, each framed for the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakebed.core.event_stream import OVERHEAD_BYTES, encode_headers, frame
from lakebed.select.model import QueryStats

__all__ = ["CONTINUATION", "END", "MAX_MESSAGE_BYTES", "MAX_RECORDS_BYTES", "error", "progress", "records", "stats"]

MAX_MESSAGE_BYTES: Final = 128 * 1024 - 256
"""Of a whole message. The buffer of a decoder that is in wide use (of the AWS SDK for Java) holds 128 KiB."""

_MAX_WORDS_BYTES: Final = 4096
"""Of an error's text: it may quote what a client sent, and a header has an end."""


def _event(name: str, content_type: str | None = None) -> bytes:
    headers = [(":message-type", "event"), (":event-type", name)]
    if content_type is not None:
        headers.append((":content-type", content_type))
    return encode_headers(headers)


_RECORDS: Final = _event("Records", "application/octet-stream")
_PROGRESS: Final = _event("Progress", "text/xml")
_STATS: Final = _event("Stats", "text/xml")

MAX_RECORDS_BYTES: Final = MAX_MESSAGE_BYTES - OVERHEAD_BYTES - len(_RECORDS)
"""Of records in one message. A record may begin in one and end in another."""

CONTINUATION: Final = frame(_event("Cont"))
"""Nothing to say yet; keeps the connection, and finds out whether somebody still listens."""

END: Final = frame(_event("End"))
"""All was said: without it the result is not complete."""


def records(piece: bytes) -> Iterator[bytes]:
    """Records, in as many messages as they take."""
    view = memoryview(piece)
    for start in range(0, len(piece), MAX_RECORDS_BYTES):
        yield frame(_RECORDS, view[start : start + MAX_RECORDS_BYTES])


def progress(counts: QueryStats) -> bytes:
    """How far the query is."""
    return frame(_PROGRESS, _document("Progress", counts))


def stats(counts: QueryStats) -> bytes:
    """How much the query took."""
    return frame(_STATS, _document("Stats", counts))


def error(code: str, message: str) -> bytes:
    """The query failed under way. Nothing follows it."""
    words = message.encode("utf-8", "replace")[:_MAX_WORDS_BYTES].decode("utf-8", "ignore")
    return frame(encode_headers([(":message-type", "error"), (":error-code", code), (":error-message", words)]))


def _document(root: str, counts: QueryStats) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><{root}><BytesScanned>{counts.scanned}</BytesScanned>'
        f"<BytesProcessed>{counts.processed}</BytesProcessed><BytesReturned>{counts.returned}</BytesReturned></{root}>"
    ).encode()
