"""Builders of policies and callers."""

from __future__ import annotations

import json
from collections.abc import Mapping

from lakebed.core.access import LongLivedKey, Principal, Session

OWNER = "111122223333"
OTHER = "444455556666"


def policy(*statements: Mapping[str, object], version: str = "2012-10-17") -> bytes:
    return json.dumps({"Version": version, "Statement": list(statements)}).encode()


def statement(
    effect: str = "Allow",
    action: object = "s3:GetObject",
    resource: object = "arn:aws:s3:::bucket/*",
    principal: object = None,
    condition: object = None,
    **more: object,
) -> dict[str, object]:
    written: dict[str, object] = {"Effect": effect, "Action": action, "Resource": resource, **more}
    if principal is not None:
        written["Principal"] = principal
    if condition is not None:
        written["Condition"] = condition
    return written


def user(name: str = "bob", account: str = OWNER, *policies: bytes, session: Session | None = None) -> Principal:
    return Principal(
        name=name,
        account=account,
        arn=f"arn:aws:iam::{account}:user/{name}",
        policies=policies,
        session=session,
        user_id=f"LKBU-{name}",
        key=LongLivedKey(f"LKBD-{name}", created_ms=1_690_000_000_000),
    )


def session(
    *policies: bytes,
    arn: str | None = None,
    tags: tuple[tuple[str, str], ...] = (),
    delegated_for: str = "",
    outer_policies: tuple[bytes, ...] = (),
) -> Session:
    return Session(
        arn=arn,
        issued_ms=1_700_000_000_000,
        expires_ms=1_700_003_600_000,
        policies=policies,
        tags=tags,
        delegated_for=delegated_for,
        outer_policies=outer_policies,
    )
