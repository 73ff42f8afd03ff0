"""Which addresses and credentials of another catalog make sense. Pure."""

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
    """Return if a catalog can be there. Raises InvalidInput that names the field."""
    if not address.uri:
        raise InvalidInput(f"an {what} has a uri", argument="uri")
    parts = check_url(address.uri, "uri")
    if auth.kind in (AuthKind.BEARER, AuthKind.OAUTH) and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise InvalidInput("a bearer token is sent over https only", argument="uri")
    if len(address.warehouse) > MAX_NAME_CHARS or re.search(r"[\x00-\x1f]", address.warehouse):
        raise InvalidInput(f"warehouse has at most {MAX_NAME_CHARS} characters", argument="warehouse")


def check_url(url: str, argument: str) -> SplitResult:
    """The parts of the URL of something that is asked. Raises InvalidInput."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"{argument} is not a URL", argument=argument) from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == 0:
        raise InvalidInput(f"{argument} is the http or https URL of a catalog", argument=argument)
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            f"{argument} holds no credentials: they go into auth, and are stored sealed", argument=argument
        )
    if parts.query or parts.fragment or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise InvalidInput(f"{argument} has no query, fragment or blanks", argument=argument)
    return parts


def check_auth(auth: RemoteAuth, secrets: RemoteSecrets) -> None:
    """Return if these go together. Raises InvalidInput."""
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
            AuthKind.OAUTH: "client-id and client-secret, and perhaps a token-uri and scopes",
            AuthKind.SIGV4: "access-key-id, secret-access-key, region and service, and perhaps a session-token; or a"
            " role-arn in place of the keys",
        }
        raise InvalidInput(f"auth of type {auth.kind} has {needed[auth.kind]}", argument="auth")
    for word in (auth.access_key_id, auth.region, auth.service, auth.client_id, auth.external_id):
        if word and not _WORD.fullmatch(word):
            raise InvalidInput("auth holds a word with characters that it cannot have", argument="auth")
    if auth.role_arn and not _ROLE.fullmatch(auth.role_arn):
        raise InvalidInput("role-arn is that of a role: arn:aws:iam::ACCOUNT:role/NAME", argument="role-arn")
    if auth.role_session_name and not _SESSION_NAME.fullmatch(auth.role_session_name):
        raise InvalidInput("the name of a session has 2 to 64 characters", argument="role-session-name")
    if any(not _SCOPE.fullmatch(scope) for scope in auth.scopes):
        raise InvalidInput("a scope is a word", argument="scopes")
    for secret in (secrets.token, secrets.session_token):
        if secret and not is_token(secret.reveal()):
            raise InvalidInput("a token holds characters that a header cannot carry", argument="auth")
    if auth.token_uri:
        parts = check_url(auth.token_uri, "token-uri")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise InvalidInput("a client's secret is sent over https only", argument="token-uri")


def is_token(text: str) -> bool:
    """Whether a header can carry it as a token."""
    return _HEADER_SAFE.fullmatch(text) is not None


def _only(auth: RemoteAuth, *fields: str) -> bool:
    """Whether nothing but the kind and these fields is stated."""
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
