"""Validates addresses and credentials of external catalogs. Pure."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from lakebed.core.errors import InvalidInput

from .model import AuthKind, RemoteAddress, RemoteAuth, RemoteSecrets

MAX_NAME_CHARS: Final = 512

_WORD: Final = re.compile(r"[A-Za-z0-9._:+=,@/-]{1,2048}")
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_ROLE: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
_SESSION_NAME: Final = re.compile(r"[\w+=,.@-]{2,64}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def check_address(address: RemoteAddress, auth: RemoteAuth, *, what: str = "catalog") -> None:
    """Return if the address is valid. Raises InvalidInput that names the field."""
    if not address.uri:
        raise InvalidInput(f"an {what} requires a uri", argument="uri")
    parts = check_url(address.uri, "uri")
    if auth.kind in (AuthKind.BEARER, AuthKind.OAUTH) and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise InvalidInput("a bearer token requires https", argument="uri")
    if len(address.warehouse) > MAX_NAME_CHARS or re.search(r"[\x00-\x1f]", address.warehouse):
        raise InvalidInput(f"warehouse must have at most {MAX_NAME_CHARS} characters", argument="warehouse")


def check_url(url: str, argument: str) -> SplitResult:
    """The parts of the URL of a server. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"{argument} must be a URL", argument=argument) from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        raise InvalidInput(f"{argument} must be the http or https URL of a catalog", argument=argument)
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            f"{argument} must not contain credentials: put them into auth, where they are encrypted", argument=argument
        )
    if parts.query or parts.fragment or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise InvalidInput(f"{argument} must not have a query, fragment or blanks", argument=argument)
    return parts


def check_auth(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
    """Return if the authentication and its secrets are complete and consistent. Raises InvalidInput."""
    by_key = bool(auth.access_key_id and secrets.secret_access_key) and not auth.role_arn
    by_role = bool(auth.role_arn) and not (auth.access_key_id or secrets.secret_access_key or secrets.session_token)
    of_kind = {
        AuthKind.NONE: not secrets and auth == RemoteAuth(),
        AuthKind.BEARER: bool(secrets.token) and secrets == RemoteSecrets(token=secrets.token) and _only(auth),
        AuthKind.OAUTH: bool(auth.client_id and secrets.client_secret)
        and secrets == RemoteSecrets(client_secret=secrets.client_secret)
        and _only(auth, "client_id", "token_uri", "scopes"),
        AuthKind.SIGV4: (by_key or by_role)
        and bool(auth.region and auth.service)
        and not (secrets.token or secrets.client_secret or auth.client_id or auth.token_uri or auth.scopes),
    }
    if not of_kind[auth.kind]:
        needed = {
            AuthKind.NONE: "nothing else",
            AuthKind.BEARER: "a token and nothing else",
            AuthKind.OAUTH: "client-id and client-secret; token-uri and scopes are optional",
            AuthKind.SIGV4: "region, service, and either role-arn or access-key-id and secret-access-key; session-token"
            " is optional",
        }
        raise InvalidInput(f"auth of type {auth.kind} requires {needed[auth.kind]}", argument="auth")
    for word in (auth.access_key_id, auth.region, auth.service, auth.client_id, auth.external_id):
        if word and not _WORD.fullmatch(word):
            raise InvalidInput("auth contains a value with characters that are not allowed", argument="auth")
    if auth.role_arn and not _ROLE.fullmatch(auth.role_arn):
        raise InvalidInput("role-arn must have the form arn:aws:iam::ACCOUNT:role/NAME", argument="role-arn")
    if auth.role_session_name and not _SESSION_NAME.fullmatch(auth.role_session_name):
        raise InvalidInput("role-session-name must have 2 to 64 characters", argument="role-session-name")
    if any(not _SCOPE.fullmatch(scope) for scope in auth.scopes):
        raise InvalidInput("a scope must not contain blanks or quotes", argument="scopes")
    for secret in (secrets.token, secrets.session_token):
        if secret and not is_token(secret.reveal()):
            raise InvalidInput("a token contains characters that an HTTP header cannot carry", argument="auth")
    if auth.token_uri:
        parts = check_url(auth.token_uri, "token-uri")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise InvalidInput("a client secret requires https", argument="token-uri")


def is_token(text: str) -> bool:
    """Whether an HTTP header can carry the text as a token."""
    return _HEADER_SAFE.fullmatch(text) is not None


def _only(auth: RemoteAuth, *fields: str) -> bool:
    """Whether only the kind and these fields are set."""
    blank = RemoteAuth(kind=auth.kind)
    others = set(RemoteAuth.__struct_fields__) - {"kind", *fields}
    return all(getattr(auth, name) == getattr(blank, name) for name in others)


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False
