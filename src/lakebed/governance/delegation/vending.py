"""Credential vending: temporary credentials limited by a session policy to the directories of one table.

Directories end in a slash, so that permission on `t` does not include `t10`. The caller authorizes access and verifies
the directories.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from lakebed.core.access import Principal
from lakebed.core.errors import InvalidInput

from ..credentials.sessions import MAX_DELEGATION_SECONDS, MIN_DELEGATION_SECONDS, Sessions, TemporaryKey
from .delegations import DelegationLog, DelegationPurpose, DelegationRecord

logger = logging.getLogger("lakebed.vending")

READ_ACTIONS: Final = ("s3:GetObject", "s3:GetObjectVersion")
WRITE_ACTIONS: Final = (
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)
LIST_ACTIONS: Final = ("s3:ListBucket",)
LIST_UPLOAD_ACTIONS: Final = ("s3:ListBucketMultipartUploads",)
BUCKET_ACTIONS: Final = ("s3:GetBucketLocation",)
_PLAIN: Final = str.maketrans({"*": "${*}", "?": "${?}", "$": "${$}"})


def plain_text(text: str) -> str:
    """The text escaped for a policy, so that it contains no wildcards or variables."""
    return text.translate(_PLAIN)


def outermost(directories: Iterable[str]) -> list[str]:
    """The directories without those inside others, sorted. Raises InvalidInput for a text that is no directory."""
    kept: list[str] = []
    for directory in sorted(set(directories)):
        if not directory.endswith("/") or directory.startswith("/"):
            raise InvalidInput(f"not a directory of a bucket: {directory!r}", argument="location")
        if not kept or not directory.startswith(kept[-1]):
            kept.append(directory)
    return kept


def directory_policy(bucket: str, directories: Iterable[str], *, writes: bool) -> bytes:
    """A session policy that allows what engines need on the files of these directories.

    It has one statement per kind of resource to stay short: it is part of the session token of every request.
    """
    chosen = [plain_text(directory) for directory in outermost(directories)]
    if not chosen:
        # A statement needs a resource, and a session without a policy would be unlimited.
        raise InvalidInput("vended credentials require a directory", argument="location")
    bucket_arn = f"arn:aws:s3:::{plain_text(bucket)}"
    actions = directory_actions(writes=writes)
    statements: list[dict[str, Any]] = [  # Any: JSON
        {
            "Effect": "Allow",
            "Action": actions.on_keys,
            "Resource": [f"{bucket_arn}/{directory}*" for directory in chosen],
        },
        {
            "Effect": "Allow",
            "Action": actions.on_listings,
            "Resource": bucket_arn,
            "Condition": {"StringLike": {"s3:prefix": [f"{directory}*" for directory in chosen]}},
        },
        {"Effect": "Allow", "Action": actions.on_bucket, "Resource": bucket_arn},
    ]
    document = {"Version": "2012-10-17", "Statement": statements}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


class DirectoryActions(NamedTuple):
    """The actions that vended credentials allow."""

    on_keys: tuple[str, ...]
    on_listings: tuple[str, ...]
    """On the bucket, for keys that begin with the directory."""
    on_bucket: tuple[str, ...]


def directory_actions(*, writes: bool) -> DirectoryActions:
    """The actions of vended credentials, for reading or for writing."""
    return DirectoryActions(
        READ_ACTIONS + (WRITE_ACTIONS if writes else ()),
        LIST_ACTIONS + (LIST_UPLOAD_ACTIONS if writes else ()),
        BUCKET_ACTIONS,
    )


class CredentialVending:
    """Vends credentials and records them."""

    def __init__(self, sessions: Sessions, log: DelegationLog, *, ttl_seconds: float) -> None:
        self._sessions = sessions
        self.log = log
        self._ttl_seconds = int(min(max(ttl_seconds, MIN_DELEGATION_SECONDS), MAX_DELEGATION_SECONDS))
        if not MIN_DELEGATION_SECONDS <= ttl_seconds <= MAX_DELEGATION_SECONDS:
            logger.warning(
                "credential TTL clamped: setting=tables.credential_ttl requested_seconds=%g used_seconds=%d",
                ttl_seconds,
                self._ttl_seconds,
            )

    @property
    def ttl_seconds(self) -> int:
        """Lifetime of vended credentials, unless the caller's session ends earlier."""
        return self._ttl_seconds

    def vend(
        self,
        principal: Principal,
        purpose: DelegationPurpose,
        *,
        table: str,
        bucket: str,
        directories: Sequence[str],
        writes: bool,
    ) -> TemporaryKey:
        """Vend credentials for these directories. Raises AccessDenied if the caller has vended credentials.

        Like every session they end with the caller's key. The record is written within a second; their use is traced
        even without it, by the session token. Raises Unavailable while too many records are pending.
        """
        policy = directory_policy(bucket, directories, writes=writes)
        key = self._sessions.delegate(
            principal,
            table=table,
            policy=policy,
            duration_seconds=self._ttl_seconds,
            request_id=purpose.request_id,
        )
        record = DelegationRecord(
            key.access_key_id,
            purpose,
            principal.name,
            principal.user_id,
            principal.caller_arn,
            principal.key.id if principal.key is not None else "",
            table,
            bucket,
            tuple(directories),
            writes,
            key.session.issued_ms,
            key.session.expires_ms,
        )
        self.log.enqueue(record)
        return key
