"""What the refusals of another catalog mean here.

Its words are kept where somebody has asked it something through us: they are about what he asked. What it says of this
server's own credentials is not for him: that is a fault of the connection, and of an operator to see to.

A 409 is passed on as what it is: nothing was changed. A 500, 502 or 504 to a change leaves open whether it was made,
and it stays open. A 503 says that nothing was done, as clients of the contract read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.net.http import HttpResponse

MAX_WORDS: Final = 2000

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_STACK: Final = re.compile(r"\s*\n\s+at .*", re.DOTALL)
_UNAUTHENTICATED: Final = frozenset({401, 407, 419})

BY_TYPE: Final[Mapping[str, type[e.LakebedError]]] = {
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
"""With which statuses a type is believed: a server that is confused must not have us say that nothing was changed."""


class Meant(NamedTuple):
    """What the plain statuses mean for an operation."""

    missing: type[e.LakebedError] = e.NotFound
    conflict: type[e.LakebedError] = e.CommitConflict


class _ErrorModel(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class _Error(msgspec.Struct):
    error: _ErrorModel | str | None = None


def refusal_of(answer: HttpResponse, host: str, *, changes: bool, meant: Meant = Meant()) -> e.LakebedError:  # noqa: B008
    """The error for an answer that refuses. Of a change, it says whether that may have been made."""
    status, (kind, message) = answer.status, _read(answer)
    said = message or f"the catalog at {host} answered {status}"
    if status in _UNAUTHENTICATED:
        return e.ExternalCatalogError(
            f"the catalog behind this one does not take the connection's credentials. host={host}"
        )
    if 300 <= status < 400:
        return e.ExternalCatalogError(
            f"the catalog behind this one sends elsewhere, and redirects are not followed. host={host}",
            undecided=changes,
        )
    named = BY_TYPE.get(kind)
    if named is not None and _believed(named, status):
        return named(said)
    if status >= 500:
        return _failure(status, said, host, changes=changes)
    plain: dict[int, type[e.LakebedError]] = {
        403: e.AccessDenied,
        404: meant.missing,
        405: e.NotSupported,
        406: e.NotSupported,
        409: meant.conflict,
        412: e.CommitConflict,
        422: e.ConflictingProperties,
        429: e.Throttled,
    }
    return plain.get(status, e.InvalidInput)(said)


def refusal_by_kind(answer: HttpResponse, host: str) -> e.LakebedError:
    """The same for who watches a catalog by itself: only the type is told, the rest may be anything."""
    kind = _read(answer)[0][:100]
    said = f"the other catalog answered {answer.status}. host={host} type={kind or 'unknown'}"
    if answer.status in (401, 403):
        return e.AccessDenied(said)
    if answer.status == 404:
        return e.NotFound(said)
    if answer.status == 429:
        return e.Throttled(said)
    return e.Unavailable(said) if answer.status >= 500 else e.InvalidInput(said)


def _failure(status: int, said: str, host: str, *, changes: bool) -> e.LakebedError:
    if status == 503:
        return e.Unavailable(f"the catalog behind this one is not available: {said}")
    if status == 501:
        return e.NotSupported(said)
    return e.ExternalCatalogError(
        f"the catalog behind this one failed. host={host} status={status}: {said}",
        # Who has no room has done nothing. Of all others nobody knows, whatever number they choose.
        undecided=changes and status != 507,
    )


def _believed(kind: type[e.LakebedError], status: int) -> bool:
    return any(issubclass(kind, family) and status in statuses for family, statuses in _STATUS_OF.items())


def _read(answer: HttpResponse) -> tuple[str, str]:
    """The type and the words of a refusal, the latter without what a stack trace adds and no longer than they need."""
    try:
        error = msgspec.json.decode(answer.body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", ""
    if not isinstance(error, _ErrorModel):
        return "", ""
    words = _CONTROL.sub(" ", _STACK.sub("", error.message or ""))
    return error.type or "", words[:MAX_WORDS].strip()
