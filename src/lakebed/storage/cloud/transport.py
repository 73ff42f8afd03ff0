"""HTTP sessions of the vendors' libraries, which both use `requests`, and failures without a response."""

from __future__ import annotations

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ProxyError, SSLError

from ...core.errors import Unavailable
from .error_mapping import CloudOperation

_NEVER_SENT = (NewConnectionError, ConnectTimeoutError, ProxyError, SSLError)
"""Errors that occur before a request is sent."""


def pool_connections(session: requests.Session, size: int) -> None:
    """Let a session keep `size` connections per server, and send each request once."""
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_connections=2, pool_maxsize=size, max_retries=0))


def no_response(error: Exception, operation: CloudOperation, key: str) -> Unavailable:
    """The error for a request without a complete response."""
    causes = _causes(error)
    system = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
    sent = not any(isinstance(cause, _NEVER_SENT) for cause in causes)
    return Unavailable(
        f"no complete response. operation={operation} key={key!r} reason={system or type(error).__name__}",
        undecided=sent and operation.changes_objects,
    )


def _causes(error: BaseException) -> list[BaseException]:
    """The error and its causes. The libraries keep them as causes, as arguments or as attributes."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is known for known in found):
            found.append(cause)
            further = (getattr(cause, "reason", None), getattr(cause, "inner_exception", None))
            waiting += [cause.__cause__, cause.__context__, *further, *cause.args]
    return found
