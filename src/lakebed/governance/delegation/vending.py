"""Temporary keys to the files of one table, and the session policy that confines them to its directories.

Directories are compared as directories: they end in a slash, so that the keys of `t` do not open `t10`. Whether the
caller may have the keys, and whether the directories are the table's, was decided before.
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

log = logging.getLogger("lakebed.vending")

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
    """The text as a policy writes it where none of its characters is a wildcard or begins a variable."""
    return text.translate(_PLAIN)


def outermost(directories: Iterable[str]) -> list[str]:
    """The directories without those that lie inside another of them, in order. Raises InvalidInput for what is none."""
    kept: list[str] = []
    for directory in sorted(set(directories)):
        if not directory.endswith("/") or directory.startswith("/"):
            raise InvalidInput(f"not a directory of a bucket: {directory!r}", argument="location")
        if not kept or not directory.startswith(kept[-1]):
            kept.append(directory)
    return kept


def directory_policy(bucket: str, directories: Iterable[str], *, writes: bool) -> bytes:
    """A session policy that allows what engines do with the files of these directories, and nothing else.

    One statement a kind of resource, however many directories there are: the policy goes with every request, in the
    session token, and deep directories are long.
    """
    chosen = [plain_text(directory) for directory in outermost(directories)]
    if not chosen:
        # Without a resource there is no statement, and a session without a policy would be held to nothing.
        raise InvalidInput("keys to files need a directory to be confined to", argument="location")
    whole = f"arn:aws:s3:::{plain_text(bucket)}"
    actions = directory_actions(writes=writes)
    statements: list[dict[str, Any]] = [  # Any: JSON
        {
            "Effect": "Allow",
            "Action": actions.on_keys,
            "Resource": [f"{whole}/{directory}*" for directory in chosen],
        },
        {
            "Effect": "Allow",
            "Action": actions.on_listings,
            "Resource": whole,
            "Condition": {"StringLike": {"s3:prefix": [f"{directory}*" for directory in chosen]}},
        },
        {"Effect": "Allow", "Action": actions.on_bucket, "Resource": whole},
    ]
    document = {"Version": "2012-10-17", "Statement": statements}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


class DirectoryActions(NamedTuple):
    """What keys to a directory allow."""

    on_keys: tuple[str, ...]
    on_listings: tuple[str, ...]
    """On the bucket, for keys that begin with the directory."""
    on_bucket: tuple[str, ...]


def directory_actions(*, writes: bool) -> DirectoryActions:
    """What keys to a directory allow, to read or to write."""
    return DirectoryActions(
        READ_ACTIONS + (WRITE_ACTIONS if writes else ()),
        LIST_ACTIONS + (LIST_UPLOAD_ACTIONS if writes else ()),
        BUCKET_ACTIONS,
    )


class CredentialVending:
    """Hands out keys, and has it recorded to whom."""

    def __init__(self, sessions: Sessions, kept: DelegationLog, *, ttl_seconds: float) -> None:
        self._sessions = sessions
        self._kept = kept
        self._ttl_seconds = int(min(max(ttl_seconds, MIN_DELEGATION_SECONDS), MAX_DELEGATION_SECONDS))
        if not MIN_DELEGATION_SECONDS <= ttl_seconds <= MAX_DELEGATION_SECONDS:
            log.warning(
                "credential TTL clamped: setting=tables.credential_ttl requested_seconds=%g used_seconds=%d",
                ttl_seconds,
                self._ttl_seconds,
            )

    @property
    def ttl_seconds(self) -> int:
        """How long keys are good, unless the session of who asks ends before."""
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
        """Keys to what is in these directories. Raises AccessDenied to who has such keys already.

        They end with the key that the caller has signed with, as every session does. Whom they were made for is on
        record within a second, and in their token from the first: what is done with them is traced even if the record
        is lost. Raises Unavailable while too many records wait.
        """
        policy = directory_policy(bucket, directories, writes=writes)
        key = self._sessions.delegate(
            principal,
            table=table,
            policy=policy,
            duration_seconds=self._ttl_seconds,
            request_id=purpose.request_id,
        )
        made = DelegationRecord(
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
        self._kept.enqueue(made)
        return key
