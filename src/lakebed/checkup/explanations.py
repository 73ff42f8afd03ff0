"""What a failure means, and what to do next. Pure."""

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
"""What the keys have to be allowed for a step."""

_ON_BUCKET: Final = frozenset({"s3:ListBucket"})

_ADVICE: Final[Mapping[type[LakebedError], str]] = {
    e.Unauthenticated: "The keys were good a moment ago: see whether somebody has just changed or removed them.",
    e.CredentialsExpired: "Get fresh keys where these came from.",
    e.NoSuchBucket: "Somebody has just removed the bucket, or the store answers for another one.",
    e.Throttled: "The store is busy: try again in a while.",
    e.StorageFull: "Make room in the store.",
    e.Unavailable: "The store failed or was cut off in the middle: see its own log, and try again.",
    e.IntegrityMismatch: "Something on the way changes bodies: go around proxies and caches.",
    e.NotSupported: "",  # its message says what to do
    e.InvalidSetting: "",
    e.InvalidInput: "The store takes no such request: see whether it is an S3 store, and of which version.",
    LakebedError: "See what the store's own log says of this request.",
}

_OF_KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "InvalidAccessKeyId": (
        "the store knows no such access key",
        "See that the key is of this store and was not removed or disabled, and that the endpoint is the right one.",
    ),
    "SignatureDoesNotMatch": (
        "the store knows the access key, and the secret is not its own",
        "Give the secret that goes with this key: a copied one may lack a character, or be of an older key. If it is"
        " right, a proxy in between may change the path or the host.",
    ),
    "RequestTimeTooSkewed": (
        "the store takes the time of the signature for wrong",
        "Set this machine's clock, or the store's: timedatectl set-ntp true.",
    ),
    "ExpiredToken": ("the keys have expired", "Get fresh ones where these came from."),
    "InvalidToken": (
        "the session token is not of these keys",
        "Set access key, secret and token together, all from one answer; unset AWS_SESSION_TOKEN with lasting keys.",
    ),
    "InvalidClientTokenId": ("the store knows no such access key", "See that the key is of this store."),
}


def rejected_keys(response: StoreResponse, keys: Credentials, target: CheckedStore) -> StepFailed | None:
    """What is wrong with the keys, by the answer to the first thing that they have signed; None if nothing is."""
    code = response.code
    if code in _OF_KEYS:
        why, advice = _OF_KEYS[code]
        return StepFailed(f"{why}: {keys.access_key_id} at {target.endpoint} ({response.status} {code})", advice)
    if code == "AuthorizationHeaderMalformed" and (region := response.texts().get("Region")):
        return StepFailed(f"signed for the region {target.region}, and the store is in {region}", f"Set {region}.")
    if response.status == 401:
        return StepFailed(f"the store does not take the signature: 401 {code}".rstrip(), "See that it is an S3 store.")
    if response.status >= 500 and response.status != 501:
        return StepFailed(
            f"the store fails: {response.status} {code} {response.message}".rstrip(),
            "See the store's own log, and try again.",
        )
    return None


def explain(step: StepName, error: LakebedError, target: CheckedStore) -> StepFailed:
    """The failure of a step in words for whoever reads the report."""
    if isinstance(error, e.AccessDenied) and step in _ACTIONS:
        bucket, prefix = f"arn:aws:s3:::{target.options.bucket}", target.options.key_prefix
        wanted = " and ".join(
            f"{action} on {bucket if action in _ON_BUCKET else f'{bucket}/{prefix}*'}" for action in _ACTIONS[step]
        )
        return StepFailed(f"the keys are good, and may not do this: {_said(error)}", f"Allow {wanted}.")
    advice = next(_ADVICE[kind] for kind in type(error).__mro__ if kind in _ADVICE)
    return StepFailed(_said(error), advice)


def _said(error: LakebedError) -> str:
    return " ".join(str(error).split()) or type(error).__name__
