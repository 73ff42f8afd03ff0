"""Endpoint and credentials of a server, from arguments or the environment."""

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
"""Key, secret and token. The first complete set is used, never the secret of another key."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """Endpoint, credentials and TLS settings of a server. Can be pickled; its repr has no secrets."""

    endpoint: str
    """`http://HOST:PORT` or `https://…`, without a path."""
    access_key_id: str
    secret_access_key: Secret
    session_token: Secret | None = None
    region: str = DEFAULT_REGION
    ca_bundle: str | None = None
    """CA bundle used instead of the system's."""
    s3_endpoint: str | None = None
    """Endpoint of S3 and STS, if the server has a separate listener for them."""

    @property
    def s3(self) -> ServerAccess:
        """Access to S3 and STS of the server."""
        return self if self.s3_endpoint is None else replace(self, endpoint=self.s3_endpoint)

    @property
    def catalog_uri(self) -> str:
        """URI of the Iceberg REST catalog, for engines."""
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
    """Access from arguments, completed from the environment. Raises InvalidSetting that names what to set."""
    variables = os.environ if environ is None else environ
    found_endpoint = endpoint or variables.get(ENDPOINT_VARIABLE) or DEFAULT_ENDPOINT
    found_s3 = s3_endpoint or variables.get(S3_ENDPOINT_VARIABLE)
    key, secret, token = _keys(access_key_id, secret_access_key, session_token, variables)
    return ServerAccess(
        _checked_endpoint(found_endpoint),
        key,
        secret,
        token,
        region or next((text for name in _REGION_VARIABLES if (text := variables.get(name))), DEFAULT_REGION),
        ca_bundle or variables.get(_CA_VARIABLE) or None,
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
            raise InvalidSetting("access key and secret must be set together", argument="access_key_id")
        return access_key_id, _secret(secret_access_key), _secret(session_token) if session_token else None
    for key_name, secret_name, token_name in _KEY_VARIABLES:
        key, secret, token = (environ.get(name, "") for name in (key_name, secret_name, token_name))
        if key and secret:
            return key, Secret(secret), Secret(token) if token else None
        if key or secret:
            present, missing = (key_name, secret_name) if key else (secret_name, key_name)
            raise InvalidSetting(f"{present} is set without {missing}; set both or neither", argument=missing)
    names = " or ".join(f"{key} and {secret}" for key, secret, _ in _KEY_VARIABLES[:2])
    raise InvalidSetting(
        f"no credentials; set {names} (`lakebed credentials` shows where root's are)",
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
        # The text is not quoted: it holds the password.
        raise InvalidSetting(
            "the endpoint must not contain a user or password; set the access key separately", argument="endpoint"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" if port is None else f"{parts.scheme}://{host}:{port}"


def _no_endpoint(text: str) -> InvalidSetting:
    return InvalidSetting(
        f"expected an endpoint such as {DEFAULT_ENDPOINT}, without a path. found={text!r}", argument="endpoint"
    )
