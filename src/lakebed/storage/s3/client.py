"""Requests to an S3 store through botocore: the one module that knows the library. Its calls block.

botocore does what is tedious (endpoints, signing, XML), and nothing that we decide: its retries are off, its own search
for credentials and configuration files is off, and each call is signed with the one generation of keys it was given.
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
from .error_mapping import Refusal, StoreOperation, failure
from .options import S3Options
from .request import Reply, S3ClientRequest

DETAIL_CHARS: Final = 300
"""How much of a store's own words an error repeats."""

_NO_ANSWER: Final = (HTTPClientError, ConnectionError, ResponseParserError, HTTPError, OSError)
"""What the library raises when nothing came that could be read as an answer."""

_NEVER_SENT: Final = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError, SSLError)
"""Those of them that came before the request had left."""

_signer: ContextVar[Credentials] = ContextVar("s3_signer")


class BotoClient:
    """One botocore client, safe to call from several threads."""

    def __init__(self, options: S3Options, region: str) -> None:
        # At debug level the library logs whole headers, and so session tokens.
        logger = logging.getLogger("botocore")
        logger.setLevel(max(logger.level, logging.INFO))
        # The ambient configuration must not change what we send: no profile, no files. Their credentials and region
        # come in through the chain.
        session = botocore.session.Session(
            session_vars={
                "profile": (None, None, None, None),
                "config_file": (None, None, os.devnull, None),
                "credentials_file": (None, None, os.devnull, None),
            }
        )
        session.register_component("data_loader", _service_models())
        session.register_component("credential_provider", _OneGenerationAtATime())
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
        self._client.meta.events.register("before-call.s3", _stay_here)
        self._methods = {operation: getattr(self._client, _snake_case(operation.value)) for operation in StoreOperation}

    def call(self, request: S3ClientRequest, signer: Credentials) -> Reply:
        """Send one request, once. Raises what the answer means."""
        key = {"Key": request.key} if request.key else {}
        token = _signer.set(signer)
        try:
            reply: Reply = self._methods[request.operation](Bucket=self._bucket, **key, **request.arguments)
        except ClientError as error:
            # Without the cause: its response holds the string that was signed, headers and all.
            raise failure(_refusal(error, signer), request.operation, request.key, request.condition) from None
        except (BotoCoreError, *_NO_ANSWER) as error:
            _raise_as_ours(error, request)
        finally:
            _signer.reset(token)
        return {**reply, "Body": ReplyBody(reply["Body"], request)} if "Body" in reply else reply

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class ReplyBody:
    """The body of a GET, read in pieces."""

    def __init__(self, stream: Any, request: S3ClientRequest) -> None:  # Any: botocore's StreamingBody is untyped
        self._stream = stream
        self._request = request
        self._turn = Lock()  # a close must not overtake a read in another thread

    def read(self, size: int | None = None) -> bytes:
        """Up to `size` bytes, or all; nothing at the end. Raises Unavailable if the end comes too early."""
        try:
            with self._turn:
                piece: bytes = self._stream.read(size)
        except (BotoCoreError, *_NO_ANSWER) as error:
            _raise_as_ours(error, self._request)
        return piece

    def close(self) -> None:
        """Give the connection back, or drop it if bytes are left."""
        with self._turn:
            self._stream.close()


def _stay_here(context: dict[str, Any], **_: object) -> None:  # Any: the library's own notes on a request
    """Have the library believe that a request was redirected before, which it does once at most.

    Its redirects look for the bucket's region with requests of their own, and without end where those are redirected
    too. A store in another region is a wrong setting, and told as one.
    """
    context.setdefault("s3_redirect", {})["redirected"] = True


@cache
def _service_models() -> Loader:
    """The library's description of S3, parsed once a process: that is most of the cost of a client."""
    return create_loader()


class _OneGenerationAtATime:
    """Stands where botocore keeps its credentials, and hands the signer those of the call under way."""

    method = "lakebed"
    account_id = None

    def load_credentials(self) -> _OneGenerationAtATime:
        return self

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        held = _signer.get()
        token = held.session_token.reveal() if held.session_token else None
        return ReadOnlyCredentials(held.access_key_id, held.secret_access_key.reveal(), token)

    def get_deferred_property(self, name: str) -> object:
        return lambda: getattr(self.get_frozen_credentials(), name, None)


def _raise_as_ours(error: Exception, request: S3ClientRequest) -> NoReturn:
    where = f"operation={request.operation} key={request.key!r}"
    if isinstance(error, ParamValidationError):
        # Its message quotes the arguments, body included.
        raise InvalidInput(f"arguments that S3 cannot take. {where}") from None
    if isinstance(error, FlexibleChecksumError):
        raise IntegrityMismatch(f"bytes do not match the checksum that came with them. {where}") from error
    if isinstance(error, IncompleteReadError):
        raise Unavailable(f"the body ended early. {where}") from error
    if isinstance(error, _NO_ANSWER):
        undecided = request.operation.changes_objects and not isinstance(error, _NEVER_SENT)
        raise Unavailable(f"no whole answer. {where} reason={_system_reason(error)}", undecided=undecided) from error
    # What is left is the library refusing to send: an endpoint or region that cannot be.
    raise InvalidInput(f"the request could not be made. {where} reason={type(error).__name__}") from error


def _system_reason(error: Exception) -> str:
    """Why there was no answer, in the words of the operating system if the library's error comes from one of its."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        further = getattr(cause, "kwargs", {}).get("error")  # where botocore keeps what it replaces
        cause = cause.__cause__ or (further if isinstance(further, BaseException) else None) or cause.__context__
    return type(error).__name__


def _refusal(error: ClientError, signer: Credentials) -> Refusal:
    told = error.response.get("Error", {})
    answer = error.response.get("ResponseMetadata", {})
    size = str(told.get("ActualObjectSize", ""))
    return Refusal(
        status=answer.get("HTTPStatusCode", 0),
        code=_without_secrets(str(told.get("Code", "")), signer),
        detail=_without_secrets(str(told.get("Message", "")), signer),
        request_id=str(answer.get("RequestId", "")),
        object_size=int(size) if size.isdecimal() else None,
    )


def _without_secrets(text: str, signer: Credentials) -> str:
    """The text as far as errors repeat it, without the secret and the token should a store echo them."""
    for secret in (signer.secret_access_key, signer.session_token):
        if secret:
            text = text.replace(secret.reveal(), "***")
    return text[:DETAIL_CHARS]


def _snake_case(name: str) -> str:
    """Botocore's method for an operation: `ListObjectsV2` is `list_objects_v2`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
