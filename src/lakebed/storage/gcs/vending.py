"""Exchanges the server's access token for one that is limited by a credential access boundary.

Not verified against Google: the tests use a scripted token service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from ...core.clock import Clock
from ...core.errors import AccessDenied, InvalidInput, LakebedError, Throttled, Unauthenticated, Unavailable
from ...core.extras import require_extra
from ...core.secrets import Secret
from ...net.http import Http, HttpRequest, send_with_retries
from ..cloud.scoped import ScopedToken
from ..option_checks import check_endpoint
from .access_boundary import GcsScope, access_boundary
from .options import GcsOptions

TOKEN_URL: Final = "https://sts.googleapis.com/v1/token"  # noqa: S105 - a URL
TIMEOUT_SECONDS: Final = 10.0
TRIES: Final = 3

_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"

_ERRORS: Final[Mapping[str, type[LakebedError]]] = {
    "access_denied": AccessDenied,
    "invalid_grant": Unauthenticated,
    "invalid_client": Unauthenticated,
    "unauthorized_client": AccessDenied,
    "invalid_request": InvalidInput,
    "invalid_target": InvalidInput,
}


@dataclass(frozen=True, slots=True)
class SourceToken:
    """The server's access token; `expires_ms` is None if unknown."""

    token: Secret
    expires_ms: int | None


async def source_token(options: GcsOptions) -> SourceToken:
    """The access token of the options. One request for a service account or default credentials."""
    require_extra("gcs", "credential vending for Google Cloud Storage")
    # Imported on demand: the library is an extra, and slow to load.
    from .credentials import EXCHANGE_SCOPE, library_credentials, refreshed_token

    def request() -> SourceToken:
        return SourceToken(*refreshed_token(library_credentials(options, EXCHANGE_SCOPE)))

    return await asyncio.to_thread(request)


async def downscope(
    source: SourceToken,
    scopes: Sequence[GcsScope],
    http: Http,
    clock: Clock,
    *,
    token_url: str = TOKEN_URL,
    allow_http: bool = False,
) -> ScopedToken:
    """A token for `scopes`. Google decides its lifetime, at most that of the source. Not verified against Google.

    Raises Unauthenticated or AccessDenied if the source is rejected, InvalidInput for a rejected boundary, Throttled,
    Unavailable.
    """
    check_endpoint(token_url, allow_http=allow_http, name="token_url")
    request = HttpRequest(
        "POST",
        token_url,
        {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
        exchange_form(source.token, access_boundary(scopes)),
        TIMEOUT_SECONDS,
        through_proxy=True,
    )
    sent_ms = clock.now_ms()
    response = await send_with_retries(http, request, tries=TRIES, service="token service")
    if response.status != 200:
        raise _failure(response.status, response.body)
    return parse_token(response.body, source.expires_ms, sent_ms)


def exchange_form(token: Secret, boundary: Mapping[str, Any]) -> bytes:  # Any: a JSON document
    """The body of the token exchange (RFC 8693, with Google's `options`)."""
    return urlencode(
        {
            "grant_type": _GRANT,
            "subject_token_type": _ACCESS_TOKEN,
            "requested_token_type": _ACCESS_TOKEN,
            "subject_token": token.reveal(),
            "options": json.dumps(boundary, separators=(",", ":")),
        }
    ).encode()


def parse_token(body: bytes, source_expires_ms: int | None, sent_ms: int) -> ScopedToken:
    """The token of a response. Without a lifetime, it expires with its source. Raises Unavailable if incomplete."""
    document = _document(body)
    token, seconds = document.get("access_token"), document.get("expires_in")
    if not isinstance(token, str) or not token:
        raise Unavailable("token service response without access_token")
    if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0:
        expires_ms = sent_ms + seconds * 1000
    elif source_expires_ms is not None:
        expires_ms = source_expires_ms
    else:
        raise Unavailable("token service response without expires_in")
    if source_expires_ms is not None:
        expires_ms = min(expires_ms, source_expires_ms)
    return ScopedToken(Secret(token), expires_ms)


def _failure(status: int, body: bytes) -> LakebedError:
    """The error of a response. Its description is dropped: it may quote the token."""
    code = _document(body).get("error")
    kind = _ERRORS.get(code) if isinstance(code, str) else None
    if status == 429:
        kind = Throttled
    elif status >= 500:
        kind = Unavailable
    elif kind is None:
        kind = AccessDenied if status == 403 else Unauthenticated if status == 401 else InvalidInput
    shown = code if isinstance(code, str) and code in _ERRORS else "none"
    return kind(f"token exchange failed. status={status} code={shown}")


def _document(body: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
