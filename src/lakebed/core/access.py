"""Who asks for what: the values that every edge hands to the one authorizer.

The authorizer itself lives in `governance`; services hold only the `Authorizer` protocol, so that none of them
can grow an access rule of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, as established by an edge."""

    name: str
    """Stable name: `root`, a user's name, or `anonymous`."""

    account: str
    """The account that owns what the principal makes: 12 digits."""

    arn: str
    """`arn:aws:iam::ACCOUNT:user/NAME`, `…:root`, or `arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`."""

    is_root: bool = False
    """Root passes every policy except the session policy of its own temporary keys."""

    is_anonymous: bool = False

    policies: tuple[bytes, ...] = ()
    """Identity policies, as JSON documents. Any may allow; any may deny."""

    session_policy: bytes | None = None
    """A further limit carried by temporary keys: both it and the identity must allow."""


ANONYMOUS = Principal(name="anonymous", account="", arn="*", is_anonymous=True)
"""A caller that gave no credentials."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One question: may `principal` do `action` on `resource`?"""

    principal: Principal
    action: str
    """As in policies: `s3:GetObject`, `sts:AssumeRole`."""

    resource: str
    """As in policies: `arn:aws:s3:::bucket/key`."""

    context: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Condition keys and their values: `aws:SourceIp`, `s3:prefix`, `s3:x-amz-acl`, …"""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """What the resource itself says of access."""

    owner: str
    """The account that owns it: its identities need no grant from the resource policy."""

    policy: bytes | None = None
    """The resource policy (a bucket policy), as a JSON document."""

    block_public_policy: bool = False
    """RestrictPublicBuckets: a public policy grants nothing to anonymous callers or other accounts."""


class Authorizer(Protocol):
    """The one place where access is decided. Deny by default; explicit deny wins."""

    def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise."""
        ...
