"""Checks vended credentials: their response, and that they reach only the table's location."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from .clients import store_client
from .expectations import NotConforming, expect
from .options import ConformTarget

_REFUSALS: Final = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"})
_INSIDE: Final = ".lakebed-vended-scope-probe"
_OUTSIDE: Final = "__lakebed-vended-scope-denied"


@dataclass(frozen=True, slots=True)
class IssuedCredentials:
    """Vended credentials and their prefix."""

    prefix: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)


def read_credentials(response: Mapping[str, Any], bucket: str, location: str) -> IssuedCredentials:  # Any: JSON
    """The first complete credentials, whose prefix must be the table's location. Raises NotConforming."""
    for credential in response.get("storage-credentials") or ():
        config = credential.get("config") or {}
        keys = [str(config.get(f"s3.{name}", "")) for name in ("access-key-id", "secret-access-key", "session-token")]
        if all(keys):
            prefix = str(credential.get("prefix", ""))
            if _directory(prefix) != _directory(location) or not _directory(prefix).startswith(f"s3://{bucket}/"):
                raise NotConforming(
                    f"vended credentials are not for the table's location. prefix={prefix} location={location}"
                )
            return IssuedCredentials(prefix, *keys)
    raise NotConforming("no storage credential has s3.access-key-id, s3.secret-access-key and s3.session-token")


def probe_scope(target: ConformTarget, keys: IssuedCredentials, admin: Any) -> None:  # Any: a boto3 client
    """Check that objects can be written, read and deleted in the location, and not outside. Raises NotConforming."""
    limited = store_client(target, keys.access_key, keys.secret_key, keys.session_token)
    directory = _directory(keys.prefix).removeprefix(f"s3://{target.bucket}/")
    name = f"{uuid.uuid4().hex}.txt"
    inside = {"Bucket": target.bucket, "Key": f"{directory}/{_INSIDE}/{name}"}
    outside = {"Bucket": target.bucket, "Key": f"{_OUTSIDE}/{name}"}
    body = b"lakebed"
    _must("write in the table's location", lambda: limited.put_object(**inside, Body=body))
    _must("HEAD an object in the table's location", lambda: limited.head_object(**inside))
    read = _must("read in the table's location", lambda: limited.get_object(**inside)["Body"].read())
    expect(read == body, "an object written with vended credentials is read back")
    _must("delete in the table's location", lambda: limited.delete_object(**inside))
    _must_not("write outside the table's location", lambda: limited.put_object(**outside, Body=body))
    admin.put_object(**outside, Body=body)
    try:
        _must_not("read outside the table's location", lambda: limited.get_object(**outside))
    finally:
        admin.delete_object(**outside)


def _must(action: str, call: Callable[[], Any]) -> Any:  # Any: a response of boto3
    from botocore.exceptions import ClientError

    try:
        return call()
    except ClientError as error:
        raise NotConforming(f"vended credentials cannot {action}: {error}") from error


def _must_not(action: str, call: Callable[[], Any]) -> None:  # Any: likewise
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        response: Mapping[str, Any] = error.response  # Any: botocore's typing
        found = {str(response["Error"]["Code"]), str(response["ResponseMetadata"]["HTTPStatusCode"])}
        if found & _REFUSALS:
            return
        raise NotConforming(f"vended credentials failed to {action}, but not with 403: {error}") from error
    raise NotConforming(f"vended credentials can {action}")


def _directory(uri: str) -> str:
    return unquote(uri).rstrip("/")
