"""Credentials of the options, as objects of the vendor's library. Imported with the extra `gcs` only."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Final

import google.auth
import google.auth.credentials
import google.auth.transport.requests
import google.oauth2.credentials
import google.oauth2.service_account
import requests
from google.auth.exceptions import GoogleAuthError

from ...core.errors import InvalidSetting, LakebedError, Unauthenticated, Unavailable
from ...core.secrets import Secret
from .options import GcsOptions

OBJECTS_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_write"
"""Enough to read and write objects."""

EXCHANGE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""The scope that Google documents for the source of a downscoped token."""


def library_credentials(options: GcsOptions, scope: str = OBJECTS_SCOPE) -> google.auth.credentials.Credentials:
    """The service account, the token, or the application default credentials.

    Raises InvalidSetting for an invalid key file, Unauthenticated if there are no default credentials.
    """
    if options.token is not None:
        return google.oauth2.credentials.Credentials(options.token.reveal())  # type: ignore[no-untyped-call]  # the library's
    try:
        if options.service_account_json is not None:
            document = _service_account(options.service_account_json)
            return google.oauth2.service_account.Credentials.from_service_account_info(  # type: ignore[no-any-return, no-untyped-call]  # the library's
                document, scopes=[scope]
            )
        found, _ = google.auth.default(scopes=[scope])
    except (GoogleAuthError, ValueError) as error:
        if options.service_account_json is not None:
            raise InvalidSetting(
                f"service_account_json: not a usable key file. reason={type(error).__name__}",
                argument="service_account_json",
            ) from None
        raise Unauthenticated(f"no default credentials of Google. reason={type(error).__name__}") from None
    return found


def refreshed_token(credentials: google.auth.credentials.Credentials) -> tuple[Secret, int | None]:
    """A valid access token, and its expiry in milliseconds since the epoch if known. One request unless it is valid."""
    try:
        if not credentials.valid:
            with requests.Session() as session:
                credentials.refresh(google.auth.transport.requests.Request(session))  # type: ignore[no-untyped-call]  # the library's
    except GoogleAuthError as error:
        raise auth_failure(error) from None
    if not credentials.token:
        raise Unauthenticated("the credentials of Google have no access token")
    expiry = credentials.expiry  # without time zone, in UTC
    expires_ms = None if expiry is None else round(expiry.replace(tzinfo=UTC).timestamp() * 1000)
    return Secret(credentials.token), expires_ms


def auth_failure(error: GoogleAuthError) -> LakebedError:
    """The error for credentials that give no token. The library's message is dropped: it may quote the response."""
    kind = Unavailable if error.retryable else Unauthenticated
    return kind(f"no access token of Google. reason={type(error).__name__}")


def _service_account(text: Secret) -> dict[str, object]:
    document = json.loads(text.reveal())
    if not isinstance(document, dict):
        raise ValueError("expected a JSON object")
    return document
