"""Session policies for credentials of an external S3 store: exactly the directories of one table. Pure.

STS limits a policy to 2,048 characters. A longer one is compacted: first to the actions that engines need,
then without listings. The directories are never widened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from lakebed.core.errors import InvalidInput
from lakebed.governance.delegation.vending import DirectoryActions, outermost, plain_text

MAX_CHARS: Final = 2048
"""The limit of AWS for the text of a session policy."""

_READ_KMS: Final = ("kms:DescribeKey", "kms:Decrypt")
_WRITE_KMS: Final = ("kms:Encrypt", "kms:GenerateDataKey*")


_READ: Final = ("s3:GetObject", "s3:GetObjectVersion")
_WRITE: Final = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")


def _variants(*, writes: bool) -> Iterable[DirectoryActions]:
    """The actions that engines need, the most complete first.

    Without `s3:ListBucketMultipartUploads`: MinIO rejects policies that limit it to a prefix.
    """
    listing, location = ("s3:ListBucket",), ("s3:GetBucketLocation",)
    yield DirectoryActions(_READ + (_WRITE if writes else ()), listing, location)
    needed = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload") if writes else _READ[:1]
    yield DirectoryActions(needed, listing, ())
    yield DirectoryActions(needed, (), ())


def session_policy(
    bucket: str,
    directories: Sequence[str],
    *,
    writes: bool,
    partition: str = "aws",
    encryption_keys: Sequence[str] = (),
    decryption_keys: Sequence[str] = (),
) -> str:
    """The policy, at most 2,048 characters. Raises InvalidInput if the directories do not fit.

    KMS keys for encryption may decrypt too.
    """
    chosen = [plain_text(directory) for directory in outermost(directories)]
    if not chosen:
        # A session without a statement would have the whole role.
        raise InvalidInput("vended credentials require a directory", argument="location")
    text = ""
    for actions in _variants(writes=writes):
        text = _written(
            f"arn:{partition}:s3:::{plain_text(bucket)}",
            chosen,
            actions,
            encryption_keys,
            decryption_keys,
            writes=writes,
        )
        if len(text) <= MAX_CHARS:
            return text
    raise InvalidInput(
        f"the table's directories do not fit into a session policy: shorten the location, or remove write.*.path."
        f" characters={len(text)} maximum={MAX_CHARS}",
        argument="location",
    )


def _written(
    bucket_arn: str,
    directories: Sequence[str],
    actions: DirectoryActions,
    encryption_keys: Sequence[str],
    decryption_keys: Sequence[str],
    *,
    writes: bool,
) -> str:
    statements: list[dict[str, Any]] = [  # Any: JSON
        _allow(actions.on_keys, [f"{bucket_arn}/{directory}*" for directory in directories])
    ]
    if actions.on_listings:
        condition = {"StringLike": {"s3:prefix": [f"{directory}*" for directory in directories]}}
        statements.append(_allow(actions.on_listings, bucket_arn) | {"Condition": condition})
    if actions.on_bucket:
        statements.append(_allow(actions.on_bucket, bucket_arn))
    if writes and encryption_keys:
        statements.append(_allow(_READ_KMS + _WRITE_KMS, list(encryption_keys)))
    decrypted = [*decryption_keys] if writes else [*encryption_keys, *decryption_keys]
    if decrypted:
        statements.append(_allow(_READ_KMS, decrypted))
    document = {"Version": "2012-10-17", "Statement": statements}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _allow(actions: Sequence[str], resource: str | list[str]) -> dict[str, Any]:  # Any: JSON
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}
