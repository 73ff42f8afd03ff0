"""Errors of the token endpoint: OAuth error codes (RFC 6749 §5.2, RFC 8693 §2.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from lakebed.core import errors as e
from lakebed.wire.http.message import Headers, Response

NO_STORE: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Pragma", "no-cache"))
"""Headers of all responses of the token endpoint (RFC 6749 §5.1)."""

_INTERNAL: Final = "internal error"
_PLAIN: Final = str.maketrans({'"': "'", "\\": "'"})
"""Error descriptions cannot have quotes or backslashes."""


class OAuthErrorModel(NamedTuple):
    """The HTTP status and OAuth code of an error."""

    status: int
    code: str


class OAuthFault(e.LakebedError):
    """An error of the token endpoint itself."""

    def __init__(self, code: str, message: str, *, status: int = 400, client: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.client = client
        """The id of a client that failed to authenticate, for the audit log."""


OAUTH_ERRORS: Final[Mapping[type[e.LakebedError], OAuthErrorModel]] = {
    e.LakebedError: OAuthErrorModel(500, "server_error"),
    e.InvalidInput: OAuthErrorModel(400, "invalid_request"),
    e.InvalidScope: OAuthErrorModel(400, "invalid_scope"),
    # An invalid subject token. Failed client authentication is an OAuthFault.
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
    return next(OAUTH_ERRORS[kind] for kind in type(error).__mro__ if kind in OAUTH_ERRORS)


def oauth_error_response(error: e.LakebedError) -> Response:
    """The response to a failed request."""
    model = oauth_error_model(error)
    headers: Headers = [*NO_STORE]
    if model.status == 401:
        headers.append(("WWW-Authenticate", 'Basic realm="lakebed"'))
    if model.status in (429, 503):
        seconds = error.retry_after_seconds if isinstance(error, e.Throttled) else None
        headers.append(("Retry-After", str(seconds or 1)))
    # Internal errors are not described.
    description = str(error) if model.status < 500 or model.status == 501 else _INTERNAL
    document = {"error": model.code, "error_description": _plain(description or model.code)}
    return Response(model.status, headers, msgspec.json.encode(document))


def _plain(text: str) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in text.translate(_PLAIN))
