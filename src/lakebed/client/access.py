"""Where a server is, and whose keys are used: from arguments, else from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret

DEFAULT_ENDPOINT: Final = "http://127.0.0.1:9000"
DEFAULT_REGION: Final = "us-east-1"

ENDPOINT_VARIABLE: Final = "LAKEBED_ENDPOINT"
S3_ENDPOINT_VARIABLE: Final = "LAKEBED_S3_ENDPOINT"
_REGION_VARIABLES: Final = ("LAKEBED_REGION", "AWS_REGION", "AWS_DEFAULT_REGION")
_CA_VARIABLE: Final = "AWS_CA_BUNDLE"

_KEY_VARIABLES: Final = (
    ("LAKEBED_ACCESS_KEY", "LAKEBED_SECRET_KEY", ""),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    ("LAKEBED_ROOT_ACCESS_KEY", "LAKEBED_ROOT_SECRET_KEY", ""),
)
"""Key, secret and token. They are taken together, of the first that is there: never the secret of another key."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How a client reaches a server. Can be sent to other processes; shows no secret."""

    endpoint: str
    """`http://HOST:PORT` or `https://…`, without a path."""
    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    region: str = DEFAULT_REGION
    ca_bundle: str | None = None
    """Authorities to trust in place of the system's."""
    s3_endpoint: str | None = None
    """Where S3 and STS are, if the server has another listener for them; None: at the endpoint."""

    @property
    def s3(self) -> ServerAccess:
        """How S3 and STS of the server are reached."""
        return self if self.s3_endpoint is None else replace(self, endpoint=self.s3_endpoint)

    @property
    def catalog_uri(self) -> str:
        """The Iceberg REST catalog of the server, for engines."""
        return f"{self.endpoint}/iceberg"


def find_access(
    endpoint: str | None = None,
    *,
    access_key_id: str | None = None,
    secret_access_key: str | Secret | None = None,
    session_token: str | Secret | None = None,
    region: str | None = None,
    ca_bundle: str | None = None,
    s3_endpoint: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> ServerAccess:
    """What is given, and for the rest what the environment says. Raises InvalidSetting that says what to set."""
    host_environment = os.environ if environ is None else environ
    found_endpoint = endpoint or host_environment.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
    found_s3 = s3_endpoint or host_environment.get(S3_ENDPOINT_VARIABLE)
    key, secret, token = _keys(access_key_id, secret_access_key, session_token, host_environment)
    return ServerAccess(
        _checked_endpoint(found_endpoint),
        key,
        secret,
        token,
        region or next((text for name in _REGION_VARIABLES if (text := host_environment.get(name))), DEFAULT_REGION),
        ca_bundle or host_environment.get(_CA_VARIABLE) or None,
        _checked_endpoint(found_s3) if found_s3 else None,
    )


def _keys(
    access_key_id: str | None,
    secret_access_key: str | Secret | None,
    session_token: str | Secret | None,
    environ: Mapping[str, str],
) -> tuple[str, Secret, Secret | None]:
    if access_key_id or secret_access_key:
        if not (access_key_id and secret_access_key):
            raise InvalidSetting("an access key and its secret are given together", argument="access_key_id")
        return access_key_id, _secret(secret_access_key), _secret(session_token) if session_token else None
    for key_name, secret_name, token_name in _KEY_VARIABLES:
        key, secret, token = (environ.get(name, "") for name in (key_name, secret_name, token_name))
        if key and secret:
            return key, Secret(secret), Secret(token) if token else None
        if key or secret:
            there, missing = (key_name, secret_name) if key else (secret_name, key_name)
            raise InvalidSetting(f"{there} is set and {missing} is not: set both, or neither", argument=missing)
    names = " or ".join(f"{key} and {secret}" for key, secret, _ in _KEY_VARIABLES[:2])
    raise InvalidSetting(
        f"no access key to sign requests with: set {names} (`lakebed credentials` says where root's are)",
        argument="access_key_id",
    )


def _secret(given: str | Secret) -> Secret:
    return given if isinstance(given, Secret) else Secret(given)


def _checked_endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _no_endpoint(text) from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise _no_endpoint(text)
    if parts.username is not None or parts.password is not None:
        # Not quoted: it would show the password.
        raise InvalidSetting("the endpoint holds no user or password: keys are given apart", argument="endpoint")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


def _no_endpoint(text: str) -> InvalidSetting:
    return InvalidSetting(
        f"the endpoint is an address such as {DEFAULT_ENDPOINT}, without a path. found={text!r}", argument="endpoint"
    )
