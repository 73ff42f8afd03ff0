"""SQL queries over objects by S3's SelectObjectContent.

for piece in lake.selects.run("logs", "2026/01.csv", "SELECT s.level FROM S3Object s", {"CSV": {}}, {"JSON": {}}):
    sys.stdout.buffer.write(piece)
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from lakebed.core.errors import Incomplete, IntegrityMismatch, InvalidInput, LakebedError, SelectError, Unavailable
from lakebed.core.event_stream import EventStreamDecoder, EventStreamMessage
from lakebed.core.sigv4 import encode_segment

from .connection import ServerConnection
from .errors import s3_document, s3_error_of, s3_failure_of

__all__ = ["ObjectEntry", "SelectClient", "SelectResult", "SelectStats", "Words"]

Words = Mapping[str, "str | bool | Words"]
"""XML elements by name, as SDKs spell them: `{"CSV": {"FileHeaderInfo": "USE"}, "CompressionType": "GZIP"}`."""


@dataclass(frozen=True, slots=True)
class SelectStats:
    """Bytes scanned, processed and returned by a query."""

    scanned: int = 0
    processed: int = 0
    returned: int = 0


class SelectResult:
    """The records of a query, readable once. Close it to end the query early."""

    def __init__(self, connection: ServerConnection, path: str, query: Mapping[str, str], body: bytes) -> None:
        self.counts = SelectStats()
        """Statistics of the query, complete after the last record."""
        self._pieces = self._read(connection, path, query, body)

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        """Close the connection, which ends the query."""
        self._pieces.close()

    def _read(
        self, connection: ServerConnection, path: str, query: Mapping[str, str], body: bytes
    ) -> Generator[bytes, None, None]:
        decoder, is_ended = EventStreamDecoder(), False
        with connection.stream("POST", path, query=query, body=body, failure=_failure) as pieces:
            for message in _messages(decoder, pieces):
                match _event_of(message):
                    case "Records":
                        yield message.payload
                    case "Stats":
                        self.counts = _counts(message.payload)
                    case "End":
                        is_ended = True
        if not is_ended:
            raise Incomplete("the response ended before the End message")


@dataclass(frozen=True, slots=True)
class ObjectEntry:
    """An object of a listing."""

    key: str
    size: int


class SelectClient:
    """Client of S3 Select."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def run(
        self,
        bucket: str,
        key: str,
        expression: str,
        source: Words,
        target: Words,
        *,
        scan_range: tuple[int | None, int | None] | None = None,
        version: str | None = None,
    ) -> SelectResult:
        """Run a query. The request is sent when the first piece is read.

        `source` is the InputSerialization and `target` the OutputSerialization. Reading raises SelectError for errors
        of the query or the object, NoSuchBucket, NoSuchKey, AccessDenied, Unavailable, and Incomplete for a truncated
        response.
        """
        request = _request(expression, source, target)
        if scan_range is not None:
            bounds = zip(("Start", "End"), scan_range, strict=True)
            request["ScanRange"] = {name: str(bound) for name, bound in bounds if bound is not None}
        query = {"select": "", "select-type": "2"} | ({} if version is None else {"versionId": version})
        return SelectResult(self._connection, _path(bucket, key), query, _body(request))

    def run_prefix(self, bucket: str, prefix: str, expression: str, source: Words, target: Words) -> SelectResult:
        """Run a query over all objects with a prefix, which need the same format and columns.

        A Lakebed extension of S3. Raises as `run`, for any of the objects.
        """
        query = {"select": "", "select-type": "2", "prefix": prefix}
        return SelectResult(self._connection, _path(bucket), query, _body(_request(expression, source, target)))

    def objects(self, bucket: str, prefix: str = "") -> Iterator[ObjectEntry]:
        """List the objects with a prefix, in key order. Raises NoSuchBucket, AccessDenied."""
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        while True:
            with self._connection.stream("GET", _path(bucket), query=query) as pieces:
                root = s3_document(b"".join(pieces))
            if root is None:
                raise Unavailable("unexpected response to a listing; check that the endpoint is a Lakebed server")
            for found in root.iterfind("Contents"):
                yield ObjectEntry(unquote(found.findtext("Key") or ""), int(found.findtext("Size") or 0))
            token = root.findtext("NextContinuationToken")
            if not token:
                return
            query["continuation-token"] = token


def _request(expression: str, source: Words, target: Words) -> dict[str, str | bool | Words]:
    return {
        "Expression": expression,
        "ExpressionType": "SQL",
        "InputSerialization": source,
        "OutputSerialization": target,
    }


def _body(request: Words) -> bytes:
    return f"<SelectObjectContentRequest>{_elements(request)}</SelectObjectContentRequest>".encode()


_UNSAFE: Final = re.compile("[&<>\r\n\t]")


def _elements(words: Words) -> str:
    pieces = []
    for name, value in words.items():
        if isinstance(value, Mapping):
            content = _elements(value)
        elif isinstance(value, bool):
            content = "true" if value else "false"
        else:
            # As character references: XML parsers normalize literal line ends.
            content = _UNSAFE.sub(lambda found: f"&#{ord(found[0])};", value)
        pieces.append(f"<{name}>{content}</{name}>")
    return "".join(pieces)


def _path(bucket: str, key: str = "") -> str:
    return "/".join(("", encode_segment(bucket), *map(encode_segment, key.split("/")))) if key else f"/{bucket}"


def _failure(status: int, body: bytes, request: str) -> LakebedError:
    error = s3_error_of(body)
    if status == 400 and error is not None:
        code, message = error
        return SelectError(message, code=code)
    return s3_failure_of(status, body, request)


def _messages(decoder: EventStreamDecoder, pieces: Iterator[bytes]) -> Iterator[EventStreamMessage]:
    try:
        for piece in pieces:
            yield from decoder.feed(piece)
        decoder.finish()
    except (InvalidInput, IntegrityMismatch) as error:
        raise Unavailable(f"corrupted response. {error}") from error


def _event_of(message: EventStreamMessage) -> str:
    """The event type of a message. Raises the error of an error message."""
    if message.headers.get(":message-type") != "error":
        return message.headers.get(":event-type", "")
    code, text = message.headers.get(":error-code", ""), message.headers.get(":error-message", "")
    if code in ("Busy", "SlowDown", "InternalError"):
        raise Unavailable(f"{text} code={code}")
    raise SelectError(text, code=code)


def _counts(payload: bytes) -> SelectStats:
    root = s3_document(payload)
    if root is None:
        return SelectStats()
    names = ("BytesScanned", "BytesProcessed", "BytesReturned")
    return SelectStats(*(int(root.findtext(name) or 0) for name in names))
