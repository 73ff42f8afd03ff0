"""Errors for error responses and failed requests, of the classes in `lakebed.core.errors`."""

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
"""What OpenSSL, in its several versions, calls an answer that is no TLS: plain HTTP, most likely."""

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
"""Types that callers act upon; all others are told apart by their status."""

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
    401: "see that the access key and its secret are those of this server",
    403: "have the right given to the access key, or use another one",
}
"""What to do next, where the server's words are about what it found."""


class _Told(msgspec.Struct):
    message: str
    type: str = ""


class _Envelope(msgspec.Struct):
    error: _Told


def failure_of(status: int, body: bytes, asked: str) -> e.LakebedError:
    """The error that an answer tells of. `asked` is the method and path, for the message."""
    try:
        told = msgspec.json.decode(body, type=_Envelope).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Before the path is known, the server answers in the form of S3.
        words = s3_words(body)
        told = _Told(_quoted(status, body) if words is None else words[1])
    message = f"{told.message.rstrip('.')}. status={status} asked={asked!r}"
    if status in _ADVICE:
        message = f"{told.message.rstrip('.')}: {_ADVICE[status]}. status={status} asked={asked!r}"
    made = _BY_TYPE.get(told.type) or _BY_STATUS.get(status)
    if made is not None:
        return made(message)
    if status >= 500:
        # Something broke half way: only of a request that changes nothing is it known that it changed nothing.
        return e.Unavailable(message, undecided=not asked.startswith(("GET ", "HEAD ")))
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
"""Codes of S3 that callers act upon; all others are told apart by their status."""


def s3_failure_of(status: int, body: bytes, asked: str) -> e.LakebedError:
    """The error that an answer of S3's tells of."""
    told = s3_words(body)
    if told is None:
        return failure_of(status, body, asked)
    code, words = told
    advice = f": {_ADVICE[status]}" if status in _ADVICE and code not in _BY_CODE else ""
    message = f"{words.rstrip('.')}{advice}. code={code} asked={asked!r}"
    made = _BY_CODE.get(code) or _BY_STATUS.get(status)
    return e.Unavailable(message) if made is None and status >= 500 else (made or e.LakebedError)(message)


def s3_words(body: bytes) -> tuple[str, str] | None:
    """The code and the message of an error of S3's; None if it is none."""
    root = s3_document(body)
    code = None if root is None or root.tag != "Error" else root.findtext("Code")
    return None if root is None or code is None else (code, root.findtext("Message") or "")


def s3_document(body: bytes) -> ElementTree.Element | None:
    """A document of S3's, by names without their namespace; None for what is none."""
    if b"<!" in body:  # no answer of S3 has a document type, and without one no entity can expand
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
        phrase = "an answer that is no success"
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
        # Without the header, which may hold a token.
        return e.InvalidSetting(
            f"a key, token or path that HTTP cannot carry. endpoint={endpoint}", argument="access_key_id"
        )
    if isinstance(error, ResponseTooLong):
        return e.Unavailable(f"the answer is too long. endpoint={endpoint} maximum={request.max_response_bytes}")
    if isinstance(error, TimeoutError):
        return e.Unavailable(
            f"no answer in time. endpoint={endpoint} seconds={request.timeout_seconds:g}", undecided=True
        )
    if isinstance(error, http.client.BadStatusLine) and _is_tls_alert(str(error)):
        return e.InvalidSetting(
            f"the server speaks TLS there, and the endpoint says plain HTTP: use https://. endpoint={endpoint}",
            argument="endpoint",
        )
    return e.Unavailable(
        f"the connection broke before the answer was there. endpoint={endpoint} reason={type(error).__name__}",
        undecided=True,
    )


def _unreachable(error: Exception, endpoint: str) -> e.LakebedError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return e.InvalidSetting(
            f"the server's certificate is not trusted ({error.verify_message}): give the authority that signed it"
            f" as ca_bundle or in AWS_CA_BUNDLE. endpoint={endpoint}",
            argument="ca_bundle",
        )
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return e.InvalidSetting(
            f"the server does not speak TLS there: use http://, or the port that it serves HTTPS at."
            f" endpoint={endpoint}",
            argument="endpoint",
        )
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return e.Unavailable(
        f"the server cannot be reached: see that it runs and that the endpoint is right."
        f" endpoint={endpoint} reason={reason}"
    )


def _is_tls_alert(line: str) -> bool:
    """Whether a status line is how a TLS server refuses what is no handshake."""
    return line.startswith(("\x15\x03", repr("\x15\x03")[:-1]))
