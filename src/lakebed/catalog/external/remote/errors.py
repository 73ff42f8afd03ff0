"""Maps error responses of an external catalog to errors of this server: the only place that does.

Messages of the external catalog are kept for callers whose request was forwarded: they are about that request. What it
says about this server's own credentials is not for the caller: that is a fault of the connection, for its operator.

A 409 stays a conflict: nothing was changed. A 500, 502 or 504 to a change leaves the outcome undecided. A 503 means
that nothing was done, as clients of the Iceberg REST specification read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.net.http import HttpResponse

MAX_MESSAGE_CHARS: Final = 2000

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_STACK: Final = re.compile(r"\s*\n\s+at .*", re.DOTALL)
_UNAUTHENTICATED: Final = frozenset({401, 407, 419})

ERRORS_BY_TYPE: Final[Mapping[str, type[e.LakebedError]]] = {
    "NoSuchNamespaceException": e.NoSuchNamespace,
    "NoSuchTableException": e.NoSuchTable,
    "NoSuchViewException": e.NoSuchView,
    "NoSuchIcebergTableException": e.NoSuchTable,
    "NoSuchIcebergViewException": e.NoSuchView,
    "NoSuchPlanIdException": e.NoSuchPlanId,
    "NoSuchPlanTaskException": e.NoSuchPlanTask,
    "AlreadyExistsException": e.AlreadyExists,
    "CommitFailedException": e.CommitConflict,
    "NamespaceNotEmptyException": e.NamespaceNotEmpty,
    "TableProtectedException": e.TableProtected,
    "UnprocessableEntityException": e.ConflictingProperties,
    "UnsupportedOperationException": e.NotSupported,
    "ForbiddenException": e.AccessDenied,
    "TooManyRequestsException": e.Throttled,
    "SlowDownException": e.Throttled,
}

_STATUS_OF: Final[Mapping[type[e.LakebedError], frozenset[int]]] = {
    e.NotFound: frozenset({404}),
    e.AlreadyExists: frozenset({409}),
    e.PreconditionFailed: frozenset({409, 412}),
    e.StateConflict: frozenset({400, 409}),
    e.InvalidInput: frozenset({400, 422}),
    e.NotSupported: frozenset({400, 405, 406, 501}),
    e.AccessDenied: frozenset({403}),
    e.Throttled: frozenset({429, 503}),
}
"""Statuses with which an error type is accepted: a broken server must not make this one report "nothing changed"."""


class StatusMapping(NamedTuple):
    """The errors that 404 and 409 mean for an operation, where the response names no error type."""

    missing: type[e.LakebedError] = e.NotFound
    conflict: type[e.LakebedError] = e.CommitConflict


class _ErrorModel(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class _Error(msgspec.Struct):
    error: _ErrorModel | str | None = None


def response_error(
    response: HttpResponse,
    host: str,
    *,
    changes: bool,
    mapping: StatusMapping = StatusMapping(),  # noqa: B008
) -> e.LakebedError:
    """The error for an error response; for a change, with whether it may have been made."""
    status, (kind, message) = response.status, _parse(response)
    text = message or f"the external catalog responded with an error. host={host} status={status}"
    if status in _UNAUTHENTICATED:
        return e.ExternalCatalogError(f"the external catalog rejects the credentials of the connection. host={host}")
    if 300 <= status < 400:
        return e.ExternalCatalogError(
            f"the external catalog redirects, and redirects are not followed. host={host}", undecided=changes
        )
    named = ERRORS_BY_TYPE.get(kind)
    if named is not None and _is_plausible(named, status):
        return named(text)
    if status >= 500:
        return _server_error(status, text, host, changes=changes)
    by_status: dict[int, type[e.LakebedError]] = {
        403: e.AccessDenied,
        404: mapping.missing,
        405: e.NotSupported,
        406: e.NotSupported,
        409: mapping.conflict,
        412: e.CommitConflict,
        422: e.ConflictingProperties,
        429: e.Throttled,
    }
    return by_status.get(status, e.InvalidInput)(text)


def redacted_error(response: HttpResponse, host: str) -> e.LakebedError:
    """The error for a bridge that polls, with the error type only: the message is stored, and may hold anything."""
    kind = _parse(response)[0][:100]
    text = (
        f"the external catalog responded with an error. host={host} status={response.status} type={kind or 'unknown'}"
    )
    if response.status in (401, 403):
        return e.AccessDenied(text)
    if response.status == 404:
        return e.NotFound(text)
    if response.status == 429:
        return e.Throttled(text)
    return e.Unavailable(text) if response.status >= 500 else e.InvalidInput(text)


def _server_error(status: int, text: str, host: str, *, changes: bool) -> e.LakebedError:
    if status == 503:
        return e.Unavailable(f"the external catalog is not available: {text}")
    if status == 501:
        return e.NotSupported(text)
    return e.ExternalCatalogError(
        f"the external catalog failed. host={host} status={status}: {text}",
        # Out of storage (507) means that nothing was done. Every other status leaves that open.
        undecided=changes and status != 507,
    )


def _is_plausible(kind: type[e.LakebedError], status: int) -> bool:
    return any(issubclass(kind, family) and status in statuses for family, statuses in _STATUS_OF.items())


def _parse(response: HttpResponse) -> tuple[str, str]:
    """The type and message of an error response; the message without a stack trace, and bounded."""
    try:
        error = msgspec.json.decode(response.body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    if not isinstance(error, _ErrorModel):
        return "", ""
    message = _CONTROL.sub(" ", _STACK.sub("", error.message or ""))
    return error.type or "", message[:MAX_MESSAGE_CHARS].strip()
