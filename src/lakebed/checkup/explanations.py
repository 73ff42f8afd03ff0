"""Explains failures of a storage check: cause and next step. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core import errors as e
from lakebed.core.errors import LakebedError
from lakebed.storage.credentials import Credentials

from .model import StepFailed, StepName
from .store_client import StoreResponse
from .target import CheckedStore

_ACTIONS: Final[Mapping[StepName, tuple[str, ...]]] = {
    StepName.PUT: ("s3:PutObject", "s3:GetObject"),
    StepName.CONDITIONAL_PUT: ("s3:PutObject", "s3:AbortMultipartUpload"),
    StepName.MULTIPART: ("s3:PutObject", "s3:AbortMultipartUpload"),
    StepName.LIST: ("s3:ListBucket",),
    StepName.RANGE_GET: ("s3:GetObject",),
    StepName.DELETE: ("s3:DeleteObject", "s3:ListBucket"),
}
"""The S3 permissions that a step requires."""

_ON_BUCKET: Final = frozenset({"s3:ListBucket"})

_ADVICE: Final[Mapping[type[LakebedError], str]] = {
    e.Unauthenticated: "The credentials were valid in an earlier step: check whether they have just been changed or"
    " removed.",
    e.CredentialsExpired: "Get new credentials from the same source.",
    e.NoSuchBucket: "The bucket was removed during the check, or the store resolves another one.",
    e.Throttled: "The store throttles requests: try again later.",
    e.StorageFull: "Free space in the store.",
    e.Unavailable: "The store failed or the connection broke: check the store's log, and try again.",
    e.IntegrityMismatch: "A proxy or cache changes request bodies: bypass it.",
    e.NotSupported: "",  # the message contains the advice
    e.InvalidSetting: "",
    e.InvalidInput: "The store rejects this request: check that it is an S3 store, and its version.",
    LakebedError: "Check the store's log for this request.",
}

_OF_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "InvalidAccessKeyId": (
        "unknown access key",
        "Check that the key belongs to this store and is active, and that the endpoint is correct.",
    ),
    "SignatureDoesNotMatch": (
        "the secret does not match the access key",
        "Check the secret access key: it may be truncated or belong to an older key. If it is correct, a proxy may"
        " rewrite the path or the Host header.",
    ),
    "RequestTimeTooSkewed": (
        "the time of the signature is too far from the store's clock",
        "Synchronize this machine's clock, or the store's: timedatectl set-ntp true.",
    ),
    "ExpiredToken": ("the credentials have expired", "Get new ones from the same source."),
    "InvalidToken": (
        "the session token does not belong to these keys",
        "Set access key, secret and token from one response; unset AWS_SESSION_TOKEN for long-lived keys.",
    ),
    "InvalidClientTokenId": ("unknown access key", "Check that the key belongs to this store."),
}


def rejected_keys(response: StoreResponse, keys: Credentials, target: CheckedStore) -> StepFailed | None:
    """The failure that the response to the first signed request shows; None if the store accepts the credentials."""
    code = response.code
    if code in _OF_KEYS:
        why, advice = _OF_KEYS[code]
        return StepFailed(f"{why}: {keys.access_key_id} at {target.endpoint} ({response.status} {code})", advice)
    if code == "AuthorizationHeaderMalformed" and (region := response.texts().get("Region")):
        return StepFailed(f"wrong region: signed for {target.region}, the store is in {region}", f"Set {region}.")
    if response.status == 401:
        return StepFailed(f"the store rejects the signature: 401 {code}".rstrip(), "Check that it is an S3 store.")
    if response.status >= 500 and response.status != 501:
        return StepFailed(
            f"the store fails: {response.status} {code} {response.message}".rstrip(),
            "Check the store's log, and try again.",
        )
    return None


def explain(step: StepName, error: LakebedError, target: CheckedStore) -> StepFailed:
    """The failure of a step, in words for the reader of the report."""
    if isinstance(error, e.AccessDenied) and step in _ACTIONS:
        bucket, prefix = f"arn:aws:s3:::{target.options.bucket}", target.options.key_prefix
        wanted = " and ".join(
            f"{action} on {bucket if action in _ON_BUCKET else f'{bucket}/{prefix}*'}" for action in _ACTIONS[step]
        )
        return StepFailed(f"permission denied: {_one_line(error)}", f"Allow {wanted}.")
    advice = next(_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE)
    return StepFailed(_one_line(error), advice)


def _one_line(error: LakebedError) -> str:
    return " ".join(str(error).split()) or type(error).__name__
