"""Translates error responses and failed requests into the errors of `lakebed.core.errors`."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from xml.etree import ElementTree

import msgspec

from lakebed.core import errors as e
from lakebed.net.http import HttpFailure, ResponseTooLong, Unsendable

_MAX_QUOTED: Final = 200
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"})
"""OpenSSL's reasons for a response that is not TLS, most likely plain HTTP."""

_BY_TYPE: Final[Mapping[str, Callable[[str], e.LakebedError]]] = {
    "AlreadyExistsException": e.AlreadyExists,
    "CommitFailedException": e.CommitConflict,
    "CommitStateUnknownException": lambda message: e.Unavailable(message, undecided=True),
    "ConflictPolicyAttachmentException": e.AttachmentConflict,
    "ExpiredTokenException": e.CredentialsExpired,
    "InvalidPolicyException": e.InvalidPolicy,
    "LeaseLostException": e.Fenced,
    "NamespaceNotEmptyException": e.NamespaceNotEmpty,
    "NoSuchMappingException": e.NoSuchAttachment,
    "NoSuchNamespaceException": e.NoSuchNamespace,
    "NoSuchPolicyException": e.NoSuchPolicy,
    "NoSuchPolicyTypeException": e.NoSuchPolicyType,
    "NoSuchTableException": e.NoSuchTable,
    "NoSuchTargetException": e.NoSuchTarget,
    "NoSuchViewException": e.NoSuchView,
    "NoSuchWarehouseException": e.NoSuchCatalog,
    "PolicyAttachException": e.NotAttachable,
    "PolicyInUseException": e.PolicyInUse,
    "PolicyVersionMismatchException": e.PolicyVersionMismatch,
    "TableProtectedException": e.TableProtected,
}
"""Error types that callers handle; others are translated by status."""

_BY_STATUS: Final[Mapping[int, Callable[[str], e.LakebedError]]] = {
    400: e.InvalidInput,
    401: e.Unauthenticated,
    403: e.AccessDenied,
    404: e.NotFound,
    405: e.NotSupported,
    406: e.NotSupported,
    409: e.StateConflict,
    412: e.PreconditionFailed,
    413: e.TooLarge,
    422: e.InvalidInput,
    429: e.Throttled,
    501: e.NotSupported,
    503: e.Unavailable,
    507: e.StorageFull,
}

_ADVICE: Final[Mapping[int, str]] = {
    401: "check that the access key and secret belong to this server",
    403: "use an access key of this server with the permission, and its secret",
}
"""Advice added to the server's message."""


class _Error(msgspec.Struct):
    message: str
    type: str = ""


class _Envelope(msgspec.Struct):
    error: _Error


def failure_of(status: int, body: bytes, request: str) -> e.LakebedError:
    """The error of a JSON response. `request` is method and path, for the message."""
    try:
        error = msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Requests that the server cannot route get S3 errors.
        s3_error = s3_error_of(body)
        error = _Error(_quoted(status, body) if s3_error is None else s3_error[1])
    message = f"{error.message.rstrip('.')}. status={status} request={request!r}"
    if status in _ADVICE:
        message = f"{error.message.rstrip('.')}: {_ADVICE[status]}. status={status} request={request!r}"
    kind = _BY_TYPE.get(error.type) or _BY_STATUS.get(status)
    if kind is not None:
        return kind(message)
    if status >= 500:
        # The request failed halfway: only safe methods are certain to have changed nothing.
        return e.Unavailable(message, undecided=not request.startswith(("GET ", "HEAD ")))
    return e.LakebedError(message)


_BY_CODE: Final[Mapping[str, Callable[[str], e.LakebedError]]] = {
    "ExpiredToken": e.CredentialsExpired,
    "InvalidAccessKeyId": e.Unauthenticated,
    "NoSuchBucket": e.NoSuchBucket,
    "NoSuchKey": e.NoSuchKey,
    "NoSuchVersion": e.NoSuchVersion,
    "SignatureDoesNotMatch": e.Unauthenticated,
    "SlowDown": e.Throttled,
}
"""S3 error codes that callers handle; others are translated by status."""


def s3_failure_of(status: int, body: bytes, request: str) -> e.LakebedError:
    """The error of an S3 response."""
    found = s3_error_of(body)
    if found is None:
        return failure_of(status, body, request)
    code, text = found
    advice = f": {_ADVICE[status]}" if status in _ADVICE and code not in _BY_CODE else ""
    message = f"{text.rstrip('.')}{advice}. code={code} request={request!r}"
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    return e.Unavailable(message) if kind is None and status >= 500 else (kind or e.LakebedError)(message)


def s3_error_of(body: bytes) -> tuple[str, str] | None:
    """Code and message of an S3 error document; None for other bodies."""
    root = s3_document(body)
    code = None if root is None or root.tag != "Error" else root.findtext("Code")
    return None if root is None or code is None else (code, root.findtext("Message") or "")


def s3_document(body: bytes) -> ElementTree.Element | None:
    """An S3 XML document with namespaces removed; None for other bodies."""
    if b"<!" in body:  # S3 responses have no DOCTYPE, and without it no entity expands
        return None
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  # see the line above
    except ElementTree.ParseError:
        return None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _quoted(status: int, body: bytes) -> str:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "unsuccessful response"
    text = " ".join(body.decode(errors="replace").split())[:_MAX_QUOTED]
    return f"{phrase}: {text}" if text else phrase


def connection_failure(failure: HttpFailure, endpoint: str) -> e.LakebedError:
    """The error for a request without a response: InvalidSetting where a setting is wrong, otherwise Unavailable.

    Unavailable is `undecided` if the server may have received the request.
    """
    error, request = failure.error, failure.request
    if not failure.is_sent and not isinstance(error, Unsendable):
        return _unreachable(error, endpoint)
    if isinstance(error, Unsendable):
        # The header is not quoted: it may hold a token.
        return e.InvalidSetting(
            f"invalid characters in a key, token or path. endpoint={endpoint}", argument="access_key_id"
        )
    if isinstance(error, ResponseTooLong):
        return e.Unavailable(f"response too large. endpoint={endpoint} maximum={request.max_response_bytes}")
    if isinstance(error, TimeoutError):
        return e.Unavailable(
            f"response timed out. endpoint={endpoint} seconds={request.timeout_seconds:g}", undecided=True
        )
    if isinstance(error, http.client.BadStatusLine) and _is_tls_alert(str(error)):
        return e.InvalidSetting(
            f"the server expects TLS; use https://. endpoint={endpoint}",
            argument="endpoint",
        )
    return e.Unavailable(
        f"connection closed before the response. endpoint={endpoint} reason={type(error).__name__}",
        undecided=True,
    )


def _unreachable(error: Exception, endpoint: str) -> e.LakebedError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return e.InvalidSetting(
            f"server certificate not trusted ({error.verify_message}); set its CA with ca_bundle or"
            f" AWS_CA_BUNDLE. endpoint={endpoint}",
            argument="ca_bundle",
        )
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return e.InvalidSetting(
            f"the server does not speak TLS; use http://, or its HTTPS port. endpoint={endpoint}",
            argument="endpoint",
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return e.Unavailable(
        f"server unreachable; check that it runs, and the endpoint. endpoint={endpoint} reason={reason}"
    )


def _is_tls_alert(line: str) -> bool:
    """Whether a status line is a TLS alert, with which a TLS server refuses plain HTTP."""
    return line.startswith(("\x15\x03", repr("\x15\x03")[:-1]))
