"""What a refusal means to the caller: the wire's errors become those of `lakebed.core.errors`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from xml.etree import ElementTree

import msgspec

from lakebed.core import errors as e

_MAX_QUOTED: Final = 200

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
    "NoSuchWarehouseException": e.NoSuchWarehouse,
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
