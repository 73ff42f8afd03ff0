"""Parses JSON of clients within bounds: definitions of tables, databases and column types."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from lakebed.core.errors import InvalidInput
from lakebed.core.json.bounds import check_json_bounds
from lakebed.fluss.errors import ErrorCode, FlussError

__all__ = ["read_json"]

_MAX_DEPTH: Final = 300
"""Nesting of objects and arrays: each of a type's 64 levels takes up to three."""

_MAX_VALUES: Final = 100_000


def read_json(document: bytes | str, reason: ErrorCode, subject: str) -> Any:  # Any: JSON
    """Parse a document. Raises FlussError with this code if it is not JSON, too deep or too large."""
    text = document.encode() if isinstance(document, str) else document
    try:
        check_json_bounds(text, max_depth=_MAX_DEPTH, max_values=_MAX_VALUES)
        return msgspec.json.decode(text)
    except InvalidInput as error:
        raise FlussError(reason, f"{subject}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise FlussError(reason, f"{subject} is not JSON") from None
