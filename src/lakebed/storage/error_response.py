"""Error responses of remote stores: classification by HTTP status, and the error with its details.

Each store adds a table of its own codes, which take precedence over the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..core import errors as e
from ..core.errors import LakebedError
from .seam import IfMatch, WriteCondition

__all__ = ["ErrorResponse", "error_of_response", "kind_of_status"]

_KIND_BY_STATUS: Final[Mapping[int, type[LakebedError]]] = {
    304: e.NotModified,
    401: e.Unauthenticated,
    403: e.AccessDenied,
    404: e.NotFound,
    405: e.NotSupported,
    408: e.Unavailable,
    409: e.WriteConflict,
    412: e.PreconditionFailed,
    413: e.TooLarge,
    416: e.InvalidRange,
    429: e.Throttled,
    501: e.NotSupported,
    503: e.Throttled,
    507: e.StorageFull,
}


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response. `detail` is its message, without secrets."""

    status: int
    code: str
    detail: str = ""
    request_id: str = ""
    object_size: int | None = None


def kind_of_status(status: int) -> type[LakebedError]:
    """The error class of a response whose code is unknown."""
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if 300 <= status < 400:
        return e.InvalidSetting  # another region or endpoint, so a retry cannot help
    return e.InvalidInput if 400 <= status < 500 else e.Unavailable


def error_of_response(
    kind: type[LakebedError],
    response: ErrorResponse,
    *,
    operation: str,
    changes_objects: bool,
    key: str = "",
    condition: WriteCondition | None = None,
) -> LakebedError:
    """The error of class `kind` with the details of the response."""
    values = {"operation": operation, "status": response.status, "code": response.code, "key": repr(key) if key else ""}
    values |= {"request": response.request_id, "detail": repr(response.detail) if response.detail else ""}
    details = " ".join(f"{name}={value}" for name, value in values.items() if value)
    if issubclass(kind, e.InvalidSetting):
        return kind(f"region, endpoint, bucket: the store is not there. {details}")
    message = f"store request failed. {details}"
    if issubclass(kind, e.InvalidRange):
        return kind(message, size=response.object_size)
    if issubclass(kind, e.PreconditionFailed):
        return kind(message, condition="If-Match" if isinstance(condition, IfMatch) else None)
    if kind is e.Unavailable:
        # After an internal error the outcome is unknown; after a timeout waiting for the body nothing happened.
        return e.Unavailable(message, undecided=changes_objects and response.status >= 500)
    return kind(message)
