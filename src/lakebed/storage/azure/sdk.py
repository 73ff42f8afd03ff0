"""Requests to a container through `azure-storage-blob`. Imported with the extra `azure` only. Its calls block.

The library's retries are off, because they could make a conditional write conflict with itself; a download still reads
an interrupted body again, of the same ETag.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import requests
from azure.core import MatchConditions
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential, TokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.core.pipeline.transport import RequestsTransport
from azure.identity import ClientSecretCredential, DefaultAzureCredential
from azure.storage.blob import (
    BlobBlock,
    BlobProperties,
    BlobServiceClient,
    StorageStreamDownloader,
    UserDelegationKey,
)

from ...core.errors import LakebedError, NoSuchKey, NotSupported, PreconditionFailed, Unauthenticated, Unavailable
from ..cloud.client import ListedPage
from ..cloud.error_mapping import AZURE_CODES, CloudOperation, failure
from ..cloud.transport import no_response, pool_connections
from ..error_response import ErrorResponse
from ..seam import IfAbsent, Key, ObjectHead, ObjectVersion, WriteCondition
from .names import check_blob_name, is_listed_in_order
from .options import AzureOptions

T = TypeVar("T")

PAGE_KEYS: Final = 1000
PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes per request of a download, so that a stream holds one piece."""

DETAIL_CHARS: Final = 300
"""Length of the service's error message to include in errors."""

_MAX_SINGLE_PUT_BYTES: Final = 5000 * 1024 * 1024
"""The service's limit. Below it, the library writes a blob in one request instead of in blocks."""

_DIRECTORY_MARK: Final = "hdi_isfolder"
"""Metadata of directories, which a hierarchical namespace returns like empty blobs."""


LibraryCredential = AzureNamedKeyCredential | AzureSasCredential | ClientSecretCredential | DefaultAzureCredential


class AzureBlobClient:
    """A client of one container, for several threads."""

    def __init__(self, options: AzureOptions, credential: LibraryCredential | TokenCredential | None = None) -> None:
        """`credential` replaces that of the options."""
        # At info level the library logs every request; at debug level its transport logs URLs with the SAS.
        for name, lowest in (("azure", logging.WARNING), ("urllib3", logging.INFO)):
            logger = logging.getLogger(name)
            logger.setLevel(max(logger.level, lowest))
        self._credential = credential or _library_credential(options)
        self._hierarchical = options.hierarchical
        session = requests.Session()
        pool_connections(session, options.max_concurrency)
        self._service = BlobServiceClient(
            options.account_url,
            self._credential,
            transport=RequestsTransport(session=session, session_owner=True),
            retry_total=0,
            connection_timeout=options.connect_timeout_seconds,
            read_timeout=options.read_timeout_seconds,
            max_single_get_size=PIECE_BYTES,
            max_chunk_get_size=PIECE_BYTES,
            max_single_put_size=_MAX_SINGLE_PUT_BYTES,
        )
        self._container = self._service.get_container_client(options.container)

    def put(
        self, key: str, body: bytes, metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write a blob. See `CloudClient.put`."""
        check_blob_name(key)
        return _called(
            lambda: _written(
                self._container.get_blob_client(key).upload_blob(
                    body, overwrite=True, metadata=dict(metadata), **_condition_arguments(condition)
                )
            ),
            CloudOperation.PUT,
            key,
            condition,
        )

    def put_block(self, key: str, block_id: str, body: bytes) -> None:
        """Stage a block. See `BlobClient.put_block`."""
        check_blob_name(key)
        blob = self._container.get_blob_client(key)
        _called(lambda: blob.stage_block(block_id, body, length=len(body)), CloudOperation.PUT_BLOCK, key)

    def put_block_list(
        self, key: str, block_ids: Sequence[str], metadata: Mapping[str, str], condition: WriteCondition | None
    ) -> ObjectVersion:
        """Write a blob from its blocks. See `BlobClient.put_block_list`."""
        check_blob_name(key)
        blocks = [BlobBlock(block_id) for block_id in block_ids]
        return _called(
            lambda: _written(
                self._container.get_blob_client(key).commit_block_list(
                    blocks, metadata=dict(metadata), **_condition_arguments(condition)
                )
            ),
            CloudOperation.PUT_BLOCK_LIST,
            key,
            condition,
        )

    def get(self, key: str) -> bytes:
        """The whole blob."""
        return _called(lambda: self._download(key).readall(), CloudOperation.GET, key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """A range of the blob."""
        return _called(lambda: self._download(key, start, end - start).readall(), CloudOperation.GET, key)

    def open_stream(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        """A range in pieces; the library requests all of them with the ETag of the first."""
        length = None if end is None else end - start
        # For the whole blob, no range: the library reads an empty one then, instead of failing.
        offset = None if start == 0 and end is None else start
        download = _called(lambda: self._download(key, offset, length), CloudOperation.GET, key)
        return _pieces(download, key)

    def head(self, key: str) -> ObjectHead:
        """The blob's properties."""
        check_blob_name(key)
        found = _called(lambda: self._container.get_blob_client(key).get_blob_properties(), CloudOperation.HEAD, key)
        _check_is_blob(found, key)
        return _head(key, found)

    def list_page(self, prefix: str, start_from: str | None, token: str | None) -> ListedPage:
        """A page of blobs, without directories."""
        if start_from is not None and not is_listed_in_order(start_from, hierarchical=self._hierarchical):
            start_from = None
        return _called(lambda: self._page(prefix, start_from, token), CloudOperation.LIST)

    def delete(self, key: str) -> None:
        """Remove the blob. One with snapshots is not removed, because these would be lost too."""
        check_blob_name(key)
        _called(lambda: self._container.get_blob_client(key).delete_blob(), CloudOperation.DELETE, key)

    def delegation_key(self, start: Any, expiry: Any) -> UserDelegationKey:  # Any: datetimes, as the library's
        """A key of the Entra identity, to sign a SAS with."""
        return _called(lambda: self._service.get_user_delegation_key(start, expiry), CloudOperation.GET_DELEGATION_KEY)

    def close(self) -> None:
        """Close the connections."""
        self._service.close()
        _close_credential(self._credential)

    def _download(
        self, key: str, offset: int | None = None, length: int | None = None
    ) -> StorageStreamDownloader[bytes]:
        check_blob_name(key)
        try:
            download = self._container.get_blob_client(key).download_blob(offset, length)
        except ValueError as error:  # the library always reads ranges
            raise NotSupported(f"the service ignored a byte range. key={key!r}") from error
        _check_is_blob(download.properties, key)
        return download

    def _page(self, prefix: str, start_from: str | None, token: str | None) -> ListedPage:
        # Any: the library's keywords
        position: dict[str, Any] = {} if start_from is None else {"start_from": start_from}
        listing = self._container.list_blobs(
            name_starts_with=prefix or None,
            include=["metadata"] if self._hierarchical else None,
            results_per_page=PAGE_KEYS,
            **position,
        ).by_page(token)
        blobs = list(next(listing, ()))
        # Any: the library declares the base class of its pages only
        pages: Any = listing
        heads = [_listed(blob) for blob in blobs if not _is_directory(blob)]
        return ListedPage(heads, pages.continuation_token or None)


def _library_credential(options: AzureOptions) -> LibraryCredential:
    """The account key, the SAS, or an identity of Entra ID."""
    if options.account_key is not None:
        return AzureNamedKeyCredential(options.account, options.account_key.reveal())
    if options.sas_token is not None:
        return AzureSasCredential(options.sas_token.reveal())
    return _entra_credential(options)


def _entra_credential(options: AzureOptions) -> ClientSecretCredential | DefaultAzureCredential:
    """The client secret of the options, or the identity that the library finds."""
    authority = {"authority": options.authority} if options.authority else {}
    if options.tenant_id and options.client_id and options.client_secret:
        return ClientSecretCredential(options.tenant_id, options.client_id, options.client_secret.reveal(), **authority)
    return DefaultAzureCredential(**authority)


def _close_credential(credential: LibraryCredential | TokenCredential) -> None:
    """Close the connections of an identity; keys have none."""
    if isinstance(credential, ClientSecretCredential | DefaultAzureCredential):
        credential.close()


def _condition_arguments(condition: WriteCondition | None) -> dict[str, Any]:  # Any: the library's keywords
    if condition is None:
        return {}
    if isinstance(condition, IfAbsent):
        return {"match_condition": MatchConditions.IfMissing}
    return {"match_condition": MatchConditions.IfNotModified, "etag": f'"{condition.etag}"'}


def _called(
    request: Callable[[], T], operation: CloudOperation, key: str = "", condition: WriteCondition | None = None
) -> T:
    try:
        return request()
    # Without causes: they quote the string to sign, and URLs with the SAS.
    except HttpResponseError as error:
        raise _response_error(error, operation, key, condition) from None
    except AzureError as error:
        raise no_response(error, operation, key) from None


def _response_error(
    error: HttpResponseError, operation: CloudOperation, key: str, condition: WriteCondition | None
) -> LakebedError:
    if error.status_code is None:
        # No response of the service: the identity has no token, or a body ended early.
        if isinstance(error, ClientAuthenticationError):
            return Unauthenticated(f"no token of Entra ID. operation={operation} reason={type(error).__name__}")
        return no_response(error, operation, key)
    answered: Any = error.response  # Any: the library declares no headers
    headers = {} if answered is None else answered.headers
    # The further lines may quote the string to sign.
    detail = (error.message or "").split("\n", 1)[0][:DETAIL_CHARS]
    code = headers.get("x-ms-error-code") or str(getattr(error, "error_code", "") or "")
    response = ErrorResponse(error.status_code, code, detail, headers.get("x-ms-request-id", ""))
    found = failure(AZURE_CODES, response, operation, key, condition)
    if operation is CloudOperation.GET and isinstance(found, PreconditionFailed):
        return Unavailable(f"the object was replaced during the read. key={key!r}")
    return found


def _pieces(download: StorageStreamDownloader[bytes], key: str) -> Iterator[bytes]:
    chunks = iter(download.chunks())
    while (chunk := _called(lambda: next(chunks, None), CloudOperation.GET, key)) is not None:
        yield chunk


def _written(reply: Mapping[str, Any]) -> ObjectVersion:  # Any: the library's reply
    return ObjectVersion(_bare(reply["etag"]), reply.get("version_id"))


def _head(key: str, found: BlobProperties) -> ObjectHead:
    metadata = {name.lower(): value for name, value in (found.metadata or {}).items()}
    version: str | None = getattr(found, "version_id", None)
    return ObjectHead(Key(key), found.size, _bare(found.etag), _epoch_ms(found), metadata, version)


def _listed(found: BlobProperties) -> ObjectHead:
    return ObjectHead(Key(found.name), found.size, _bare(found.etag), _epoch_ms(found))


def _epoch_ms(found: BlobProperties) -> int:
    return round(found.last_modified.timestamp() * 1000)


def _bare(etag: str | None) -> str:
    if not etag:
        raise Unavailable("the service returned no ETag")
    return etag.strip('"')


def _is_directory(found: BlobProperties) -> bool:
    return (found.metadata or {}).get(_DIRECTORY_MARK) == "true"


def _check_is_blob(found: BlobProperties, key: str) -> None:
    if _is_directory(found):
        raise NoSuchKey(f"a directory has this name. key={key!r}")
