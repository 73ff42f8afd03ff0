"""Requests to a bucket through `google-cloud-storage`. Imported with the extra `gcs` only. Its calls block.

An object's generation is used as its ETag: the service compares generations only, and each write gets another one. The
library's retries are off, because they could make a conditional write conflict with itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import requests
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Blob, Client
from google.cloud.storage.exceptions import DataCorruption

from ...core.errors import (
    IntegrityMismatch,
    InvalidRange,
    LakebedError,
    NotFound,
    PreconditionFailed,
    Unavailable,
)
from ..cloud.client import ListedPage
from ..cloud.error_mapping import GCS_CODES, CloudOperation, failure
from ..cloud.transport import no_response, pool_connections
from ..error_response import ErrorResponse
from ..seam import IfAbsent, Key, ObjectHead, ObjectVersion, WriteCondition
from .credentials import auth_failure, library_credentials
from .options import GcsOptions

T = TypeVar("T")

PAGE_KEYS: Final = 1000
PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes per request of a stream."""

DETAIL_CHARS: Final = 300
"""Length of the service's error message to include in errors."""

_LISTED_FIELDS: Final = "items(name,size,generation,updated),nextPageToken"
_MAX_GENERATION: Final = 2**63 - 1


class GcsClient:
    """A client of one bucket, for several threads."""

    def __init__(self, options: GcsOptions, credentials: Credentials | None = None) -> None:
        """`credentials` replace those of the options."""
        session = AuthorizedSession(credentials or library_credentials(options))  # type: ignore[no-untyped-call]  # the library's
        pool_connections(session, options.max_concurrency)
        # Any: the library is untyped
        self._client: Any = Client(
            project=None,
            credentials=session.credentials,
            _http=session,
            client_options={"api_endpoint": options.endpoint} if options.endpoint else None,
        )
        # The library would fetch properties of the bucket in a thread, for traces, with a permission of its own.
        self._client._bucket_metadata_cache = None
        self._bucket: Any = self._client.bucket(options.bucket)
        self._arguments: dict[str, Any] = {
            "timeout": (options.connect_timeout_seconds, options.read_timeout_seconds),
            "retry": None,
        }

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write an object. See `CloudClient.put`. Above 8 MiB the library needs two requests; the last one decides."""
        blob = self._bucket.blob(key)
        blob.metadata = dict(metadata) or None
        generation = _expected_generation(condition, key)

        def send() -> ObjectVersion:
            blob.upload_from_string(body, "application/octet-stream", if_generation_match=generation, **self._arguments)
            return ObjectVersion(_etag(blob))

        return _called(send, CloudOperation.PUT, key, condition)

    def get(self, key: str) -> bytes:
        """The whole object, with its checksum verified."""
        blob = self._bucket.blob(key)
        return _called(
            lambda: _bytes(blob.download_as_bytes(raw_download=True, **self._arguments)), CloudOperation.GET, key
        )

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """A range of the object."""
        return self._range(self._bucket.blob(key), start, end, None)

    def open_stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        """A range in pieces, all of the generation of the first."""
        blob = self._bucket.blob(key)
        first = self._range(blob, start, _piece_end(start, end), None)
        return self._pieces(blob, first, start, end, _generation(blob))

    def head(self, key: str) -> ObjectHead:
        """The object's properties."""
        blob = self._bucket.blob(key)
        _called(lambda: blob.reload(**self._arguments), CloudOperation.HEAD, key)
        return _head(blob, dict(blob.metadata or {}))

    def list_page(self, prefix: str, start_from: str | None, token: str | None) -> ListedPage:
        """A page of objects."""

        def send() -> ListedPage:
            listing = self._client.list_blobs(
                self._bucket,
                prefix=prefix or None,
                start_offset=start_from,
                page_size=PAGE_KEYS,
                page_token=token,
                fields=_LISTED_FIELDS,
                **self._arguments,
            )
            heads = [_head(blob, {}) for blob in next(listing.pages, ())]
            return ListedPage(heads, listing.next_page_token or None)

        return _called(send, CloudOperation.LIST)

    def delete(self, key: str) -> None:
        """Remove the object's current version."""
        blob = self._bucket.blob(key)
        _called(lambda: blob.delete(**self._arguments), CloudOperation.DELETE, key)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _range(self, blob: Any, start: int, end: int, generation: int | None) -> bytes:  # Any: untyped library
        def send() -> bytes:
            return _bytes(
                blob.download_as_bytes(
                    start=start,
                    end=end - 1,
                    raw_download=True,
                    checksum=None,
                    if_generation_match=generation,
                    **self._arguments,
                )
            )

        return _called(send, CloudOperation.GET, blob.name)

    def _pieces(
        self,
        blob: Any,  # Any: untyped library
        first: bytes,
        start: int,
        end: int | None,
        generation: int,
    ) -> Iterator[bytes]:
        piece, position = first, start
        while piece:
            yield piece
            position += len(piece)
            if len(piece) < PIECE_BYTES or position == end:
                return
            try:
                piece = self._range(blob, position, _piece_end(position, end), generation)
            except InvalidRange:  # the object ends with the last piece
                return
            except (PreconditionFailed, NotFound):
                raise Unavailable(f"the object was replaced during the read. key={blob.name!r}") from None


def _piece_end(position: int, end: int | None) -> int:
    return position + PIECE_BYTES if end is None else min(position + PIECE_BYTES, end)


def _expected_generation(condition: WriteCondition | None, key: str) -> int | None:
    """The generation to require; 0 is an absent object. Raises PreconditionFailed for an ETag of another store."""
    if condition is None:
        return None
    if isinstance(condition, IfAbsent):
        return 0
    text = condition.etag
    # Not 0, which would create the object.
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= _MAX_GENERATION):
        raise PreconditionFailed(f"no object has this ETag. key={key!r}", condition="If-Match")
    return int(text)


def _called(
    request: Callable[[], T], operation: CloudOperation, key: str = "", condition: WriteCondition | None = None
) -> T:
    try:
        return request()
    except GoogleAPICallError as error:
        raise _response_error(error, operation, key, condition) from None
    except DataCorruption:
        raise IntegrityMismatch(f"body does not match its checksum. operation={operation} key={key!r}") from None
    except (requests.RequestException, TransportError) as error:
        raise no_response(error, operation, key) from None
    except GoogleAuthError as error:
        raise auth_failure(error) from None


def _response_error(
    error: GoogleAPICallError, operation: CloudOperation, key: str, condition: WriteCondition | None
) -> LakebedError:
    code, message = _reason_and_message(error)
    needs_no_object = operation in (CloudOperation.PUT, CloudOperation.LIST)
    if error.code == 404 and (needs_no_object or "bucket does not exist" in message):
        code = "bucketNotFound"  # the reason is the same for bucket and object
    elif error.code == 410:
        code = "backendError"  # the service dropped an upload in several requests: start again
    elif error.code == 503 and not code:
        code = "backendError"  # undecided; a service that is too busy answers 429
    headers = getattr(error.response, "headers", None) or {}
    response = ErrorResponse(
        int(error.code or 0), code, message[:DETAIL_CHARS], headers.get("X-GUploader-UploadID", "")
    )
    return failure(GCS_CODES, response, operation, key, condition)


def _reason_and_message(error: GoogleAPICallError) -> tuple[str, str]:
    """The reason and message of the response. The library parses them for other requests than up- and downloads."""
    entries, message = error.errors, str(error.message or "")
    if not entries and error.response is not None:
        try:
            document = json.loads(error.response.content)["error"]
            entries, message = document["errors"], str(document["message"])
        except (KeyError, TypeError, ValueError):
            pass  # a text, which the library's message quotes
    return next((str(entry.get("reason", "")) for entry in entries if isinstance(entry, dict)), ""), message


def _head(blob: Blob, metadata: Mapping[str, str]) -> ObjectHead:
    modified_ms = round(blob.updated.timestamp() * 1000)
    return ObjectHead(Key(blob.name), int(blob.size), _etag(blob), modified_ms, metadata)


def _etag(blob: Blob) -> str:
    return str(_generation(blob))


def _generation(blob: Blob) -> int:
    if blob.generation is None:
        raise Unavailable(f"the service returned no generation. key={blob.name!r}")
    return int(blob.generation)


def _bytes(body: Any) -> bytes:  # Any: untyped library
    return bytes(body)
