"""S3 requests through botocore; only this module uses the library. Its calls block.

botocore resolves endpoints, signs, and handles XML. Its retries and its search for credentials and configuration files
are off, and each call is signed with the credentials passed to it.
"""

from __future__ import annotations

import logging
import os
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, Final, NoReturn

import botocore.session
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    ConnectTimeoutError,
    EndpointConnectionError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ParamValidationError,
    ProxyConnectionError,
    SSLError,
)
from botocore.loaders import Loader, create_loader
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from ...core.errors import IntegrityMismatch, InvalidInput, Unavailable
from ..credentials import Credentials
from ..error_response import ErrorResponse
from .error_mapping import StoreOperation, failure
from .options import S3Options
from .request import Reply, S3ClientRequest

DETAIL_CHARS: Final = 300
"""Length of the store's error message to include in errors."""

_NO_RESPONSE: Final = (HTTPClientError, ConnectionError, ResponseParserError, HTTPError, OSError)
"""Errors of the library if no readable response arrived."""

_NEVER_SENT: Final = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError, SSLError)
"""Those of them that occur before the request is sent."""

_signer: ContextVar[Credentials] = ContextVar("s3_signer")


class BotoClient:
    """A botocore client that is safe to use from several threads."""

    def __init__(self, options: S3Options, region: str) -> None:
        # At debug level the library logs all headers, including session tokens.
        logger = logging.getLogger("botocore")
        logger.setLevel(max(logger.level, logging.INFO))
        # Ambient configuration must not change requests: no profile, no files. Credentials and region from there come
        # through the credential chain.
        session = botocore.session.Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
            }
        )
        session.register_component("data_loader", _service_models())
        session.register_component("credential_provider", _PerCallCredentials())
        style = "path" if options.uses_path_style else "auto" if options.path_style is None else "virtual"
        checks = "when_required" if options.checksum == "none" else "when_supported"
        self._bucket = options.bucket
        self._client = session.create_client(
            "s3",
            region_name=region,
            endpoint_url=options.endpoint,
            config=Config(
                signature_version="s3v4",
                connect_timeout=options.connect_timeout_seconds,
                read_timeout=options.read_timeout_seconds,
                max_pool_connections=options.max_concurrency,
                retries={"mode": "standard", "total_max_attempts": 1},
                ignore_configured_endpoint_urls=True,
                request_checksum_calculation=checks,
                response_checksum_validation=checks,
                s3={
                    "addressing_style": style,
                    "payload_signing_enabled": False if options.unsigned_payload else None,
                },
            ),
        )
        self._client.meta.events.register("before-call.s3", _disable_redirects)
        self._methods = {operation: getattr(self._client, _snake_case(operation.value)) for operation in StoreOperation}

    def call(self, request: S3ClientRequest, signer: Credentials) -> Reply:
        """Send one request, without retries. Raises the error of the response."""
        key = {"Key": request.key} if request.key else {}
        token = _signer.set(signer)
        try:
            reply: Reply = self._methods[request.operation](Bucket=self._bucket, **key, **request.arguments)
        except ClientError as error:
            # Without the cause: its response contains the string to sign, with all headers.
            raise failure(_error_response(error, signer), request.operation, request.key, request.condition) from None
        except (BotoCoreError, *_NO_RESPONSE) as error:
            _raise_mapped(error, request)
        finally:
            _signer.reset(token)
        return {**reply, "Body": ReplyBody(reply["Body"], request)} if "Body" in reply else reply

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class ReplyBody:
    """The body of a GET."""

    def __init__(self, stream: Any, request: S3ClientRequest) -> None:  # Any: botocore's StreamingBody is untyped
        self._stream = stream
        self._request = request
        self._lock = Lock()  # a close must not overtake a read in another thread

    def read(self, size: int | None = None) -> bytes:
        """Up to `size` bytes, or all; empty at the end. Raises Unavailable if the body ends early."""
        try:
            with self._lock:
                piece: bytes = self._stream.read(size)
        except (BotoCoreError, *_NO_RESPONSE) as error:
            _raise_mapped(error, self._request)
        return piece

    def close(self) -> None:
        """Return the connection to the pool, or drop it if bytes are left."""
        with self._lock:
            self._stream.close()


def _disable_redirects(context: dict[str, Any], **_: object) -> None:  # Any: botocore's request context is untyped
    """Mark a request as already redirected, because botocore redirects at most once.

    Its redirects send extra requests to find the bucket's region, endlessly if those are redirected too. A store in
    another region is reported as a wrong setting instead.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@cache
def _service_models() -> Loader:
    """Botocore's description of S3, parsed once per process: that is most of the cost of a client."""
    return create_loader()


class _PerCallCredentials:
    """Replaces botocore's credentials by those of the current call."""

    method = "lakebed"
    account_id = None

    def load_credentials(self) -> _PerCallCredentials:
        return self

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        signer = _signer.get()
        token = signer.session_token.reveal() if signer.session_token else None
        return ReadOnlyCredentials(signer.access_key_id, signer.secret_access_key.reveal(), token)

    def get_deferred_property(self, name: str) -> object:
        return lambda: getattr(self.get_frozen_credentials(), name, None)


def _raise_mapped(error: Exception, request: S3ClientRequest) -> NoReturn:
    where = f"operation={request.operation} key={request.key!r}"
    if isinstance(error, ParamValidationError):
        # Its message quotes the arguments, including the body.
        raise InvalidInput(f"invalid arguments for S3. {where}") from None
    if isinstance(error, FlexibleChecksumError):
        raise IntegrityMismatch(f"body does not match its checksum. {where}") from error
    if isinstance(error, IncompleteReadError):
        raise Unavailable(f"body ended early. {where}") from error
    if isinstance(error, _NO_RESPONSE):
        undecided = request.operation.changes_objects and not isinstance(error, _NEVER_SENT)
        raise Unavailable(
            f"no complete response. {where} reason={_system_reason(error)}", undecided=undecided
        ) from error
    # The library did not send the request: an invalid endpoint or region.
    raise InvalidInput(f"cannot send the request. {where} reason={type(error).__name__}") from error


def _system_reason(error: Exception) -> str:
    """The operating system's error message if there is one, else the class of the library's error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        further = getattr(cause, "kwargs", {}).get("error")  # botocore stores a replaced error here
        cause = cause.__cause__ or (further if isinstance(further, BaseException) else None) or cause.__context__
    return type(error).__name__


def _error_response(error: ClientError, signer: Credentials) -> ErrorResponse:
    content = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    size = str(content.get("ActualObjectSize", ""))
    return ErrorResponse(
        status=metadata.get("HTTPStatusCode", 0),
        code=_without_secrets(str(content.get("Code", "")), signer),
        detail=_without_secrets(str(content.get("Message", "")), signer),
        request_id=str(metadata.get("RequestId", "")),
        object_size=int(size) if size.isdecimal() else None,
    )


def _without_secrets(text: str, signer: Credentials) -> str:
    """The truncated text, without secret and token in case the store echoes them."""
    for secret in (signer.secret_access_key, signer.session_token):
        if secret:
            text = text.replace(secret.reveal(), "***")
    return text[:DETAIL_CHARS]


def _snake_case(name: str) -> str:
    """Botocore's method for an operation: `ListObjectsV2` is `list_objects_v2`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
