"""Separates the object store's rejections of this server from rejections of a client.

Both raise the same error classes: the server's own keys may be revoked, or its bucket deleted. If `ExpiredToken` or
`NoSuchBucket` reached the client, it would check its own configuration, and engines would consider the data deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.core.errors import AccessDenied, InvalidSetting, NotFound, Unauthenticated, Unavailable

__all__ = ["reading_from_store", "writing_to_store"]


@contextmanager
def reading_from_store() -> Iterator[None]:
    """Raise Unavailable if the object store refuses this server. NotFound passes: the object may have been replaced."""
    try:
        yield
    except (Unauthenticated, AccessDenied, InvalidSetting) as error:
        raise _rejected(error) from error


@contextmanager
def writing_to_store() -> Iterator[None]:
    """Like `reading_from_store`, but NotFound is a failure too: the store's bucket or upload is missing."""
    try:
        yield
    except (Unauthenticated, AccessDenied, InvalidSetting, NotFound) as error:
        raise _rejected(error) from error


def _rejected(error: Exception) -> Unavailable:
    return Unavailable(f"the object store refuses this server; see `lakebed check storage`. reason={error}")
