"""Keeps the object store's refusals of this server apart from refusals of a client.

Revoked keys of the server, a policy on its bucket, or a bucket that was deleted are errors of the same classes as those
that a client gets for its own requests. Passed on, `ExpiredToken` or `NoSuchBucket` would send the client looking for
its own fault, and engines would take data for deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.core.errors import AccessDenied, InvalidSetting, NotFound, Unauthenticated, Unavailable

__all__ = ["reading_from_store", "writing_to_store"]


@contextmanager
def reading_from_store() -> Iterator[None]:
    """Raise Unavailable where the object store refuses this server. NotFound passes: it may be a replaced object."""
    try:
        yield
    except (Unauthenticated, AccessDenied, InvalidSetting) as error:
        raise _refused(error) from error


@contextmanager
def writing_to_store() -> Iterator[None]:
    """As `reading_from_store`; nor can a new blob be absent, so NotFound is the bucket or its upload."""
    try:
        yield
    except (Unauthenticated, AccessDenied, InvalidSetting, NotFound) as error:
        raise _refused(error) from error


def _refused(error: Exception) -> Unavailable:
    return Unavailable(f"the object store refuses this server; see `lakebed check storage`. reason={error}")
