"""Errors of the token endpoint: OAuth's codes for domain errors (RFC 6749 §5.2, RFC 8693 §2.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.wire.http.message import Headers, Response

NO_STORE: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Pragma", "no-cache"))
"""On every answer of the token endpoint: RFC 6749 §5.1."""

_CRASHED: Final = "internal error"
_PLAIN: Final = str.maketrans({'"': "'", "\\": "'"})
"""Descriptions have neither quotes nor backslashes."""


class OAuthErrorModel(NamedTuple):
    """The status and code of an error."""

    status: int
    code: str


class OAuthFault(e.LakebedError):
    """An error of OAuth that no service raises."""

    def __init__(self, code: str, message: str, *, status: int = 400, client: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.client = client
        """The client whose secret was wrong, for the audit log."""


OAUTH_ERRORS: Final[Mapping[type[e.LakebedError], OAuthErrorModel]] = {
    e.LakebedError: OAuthErrorModel(500, "server_error"),
    e.InvalidInput: OAuthErrorModel(400, "invalid_request"),
    e.InvalidScope: OAuthErrorModel(400, "invalid_scope"),
    # An invalid subject token. Errors of clients are raised as OAuthFault.
    e.Unauthenticated: OAuthErrorModel(400, "invalid_grant"),
    e.Incomplete: OAuthErrorModel(400, "invalid_request"),
    e.Throttled: OAuthErrorModel(429, "temporarily_unavailable"),
    e.WriteConflict: OAuthErrorModel(503, "temporarily_unavailable"),
    e.Unavailable: OAuthErrorModel(503, "temporarily_unavailable"),
}


def oauth_error_model(error: e.LakebedError) -> OAuthErrorModel:
    """The status and code of an error."""
    if isinstance(error, OAuthFault):
        return OAuthErrorModel(error.status, error.code)
    for ancestor in type(error).__mro__:
        if issubclass(ancestor, e.LakebedError) and ancestor in OAUTH_ERRORS:
            return OAUTH_ERRORS[ancestor]
    return OAUTH_ERRORS[e.LakebedError]


def oauth_error_response(error: e.LakebedError) -> Response:
    """The response to a request that failed."""
    refusal = oauth_error_model(error)
    headers: Headers = [*NO_STORE]
    if refusal.status == 401:
        headers.append(("WWW-Authenticate", 'Basic realm="lakebed"'))
    if refusal.status in (429, 503):
        seconds = error.retry_after_seconds if isinstance(error, e.Throttled) else None
        headers.append(("Retry-After", str(seconds or 1)))
    # Internal errors are not described.
    told = str(error) if refusal.status < 500 or refusal.status == 501 else _CRASHED
    document = {"error": refusal.code, "error_description": _plain(told or refusal.code)}
    return Response(refusal.status, headers, msgspec.json.encode(document))


def _plain(text: str) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in text.translate(_PLAIN))
