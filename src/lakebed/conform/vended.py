"""Keys that the catalog hands out: what is in the answer, and that they open the table's directory and nothing else."""

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
class VendedKeys:
    """Temporary keys and the directory they are for."""

    prefix: str
    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)


def read_keys(answer: Mapping[str, Any], bucket: str, location: str) -> VendedKeys:  # Any: JSON
    """The first credential with all three keys, which must be for the table's location. Raises NotConforming."""
    for credential in answer.get("storage-credentials") or ():
        config = credential.get("config") or {}
        keys = [str(config.get(f"s3.{name}", "")) for name in ("access-key-id", "secret-access-key", "session-token")]
        if all(keys):
            prefix = str(credential.get("prefix", ""))
            if _directory(prefix) != _directory(location) or not _directory(prefix).startswith(f"s3://{bucket}/"):
                raise NotConforming(f"the keys are not for the table's location. prefix={prefix} location={location}")
            return VendedKeys(prefix, *keys)
    raise NotConforming("no storage credential has s3.access-key-id, s3.secret-access-key and s3.session-token")


def probe_scope(target: ConformTarget, keys: VendedKeys, admin: Any) -> None:  # Any: a boto3 client
    """Write, look at, read and delete inside; be refused outside. Raises NotConforming."""
    limited = store_client(target, keys.access_key, keys.secret_key, keys.session_token)
    directory = _directory(keys.prefix).removeprefix(f"s3://{target.bucket}/")
    name = f"{uuid.uuid4().hex}.txt"
    inside = {"Bucket": target.bucket, "Key": f"{directory}/{_INSIDE}/{name}"}
    outside = {"Bucket": target.bucket, "Key": f"{_OUTSIDE}/{name}"}
    body = b"lakebed"
    _must("write inside the table", lambda: limited.put_object(**inside, Body=body))
    _must("look at a file inside the table", lambda: limited.head_object(**inside))
    read = _must("read inside the table", lambda: limited.get_object(**inside)["Body"].read())
    expect(read == body, "what was written with the vended keys is read back")
    _must("delete inside the table", lambda: limited.delete_object(**inside))
    _must_not("write outside the table", lambda: limited.put_object(**outside, Body=body))
    admin.put_object(**outside, Body=body)
    try:
        _must_not("read outside the table", lambda: limited.get_object(**outside))
    finally:
        admin.delete_object(**outside)


def _must(deed: str, act: Callable[[], Any]) -> Any:  # Any: what boto3 answers
    from botocore.exceptions import ClientError

    try:
        return act()
    except ClientError as error:
        raise NotConforming(f"vended keys must {deed}: {error}") from error


def _must_not(deed: str, act: Callable[[], Any]) -> None:  # Any: likewise
    from botocore.exceptions import ClientError

    try:
        act()
    except ClientError as error:
        answer: Mapping[str, Any] = error.response  # Any: botocore's own typing of an answer
        found = {str(answer["Error"]["Code"]), str(answer["ResponseMetadata"]["HTTPStatusCode"])}
        if found & _REFUSALS:
            return
        raise NotConforming(f"vended keys must be refused to {deed} with 403: {error}") from error
    raise NotConforming(f"vended keys must not {deed}, and did")


def _directory(uri: str) -> str:
    return unquote(uri).rstrip("/")
