"""Principals, credentials and access requests, and the protocols of the authorizer.

The authorizer is implemented in `governance`; services depend on these protocols only, so that no service has access
rules of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from .secrets import Secret

DEFAULT_ACCOUNT: Final = "000000000000"
"""The account of a server without one in its settings."""


@dataclass(frozen=True, slots=True)
class LongLivedKey:
    """Identifies a long-lived access key, without its secret: unique even among earlier keys with the same id."""

    id: str
    created_ms: int
    """0 for root's key, which comes from the settings."""


class ActivatedRoles(NamedTuple):
    """The principal roles that a caller's token names."""

    names: frozenset[str]
    by_provider: bool = False
    """Whether an identity provider names them: then federated roles need no assignment on this server."""


@dataclass(frozen=True, slots=True)
class Session:
    """Limits and condition keys that temporary credentials add to their identity.

    A session adds no permissions, with one exception: credentials that the catalog vends for the files of a table. The
    catalog authorized their issue, and its session policy grants the permissions.
    """

    arn: str | None
    """`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`, or None for credentials without a role."""

    issued_ms: int
    expires_ms: int

    policies: tuple[bytes, ...] = ()
    """Session policies, as JSON documents. Each of them must allow, in addition to the identity."""

    tags: tuple[tuple[str, str], ...] = ()
    """Session tags, seen by policies as `aws:PrincipalTag/KEY`."""

    delegated_for: str = ""
    """The id of the table whose files the credentials were vended for; empty for other sessions.

    Then `policies` begins with the catalog's own, and no identity policy has to allow what all of them allow.
    """

    outer_policies: tuple[bytes, ...] = ()
    """Policies of the session that requested vended credentials. They can deny and need not allow: they are about the
    catalog."""

    delegation: str = ""
    """The id of the vended access key, also in sessions derived from it: the trace id of accesses."""

    obtained_by: str = ""
    """The id of the request that it was vended to."""

    activated: ActivatedRoles | None = None
    """The roles of the token that requested the credentials; None without a token, or with a token for all roles."""


class Securable(NamedTuple):
    """An entity that privileges are granted on, as the path to it."""

    path: tuple[str, ...]
    """Keys of its containers, outermost first, then its own: `service`, `catalog 3`, `namespace 3 ns`.

    Keys hold ids, except for namespaces. A namespace that is created again is another one: dropping a namespace
    removes the grants on its name.
    """


class AccessTarget(NamedTuple):
    """The resource of an access request by names, for an external decision point, which does not know internal ids."""

    kind: str
    """`CATALOG`, `NAMESPACE` or `TABLE_LIKE`, as in Apache Polaris."""

    path: tuple[str, ...]
    """The catalog, the levels of the namespace, and the name in it, as far as they apply."""


class Grants(Protocol):
    """The privileges of a caller's roles."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of these roles, sorted."""
        ...

    def covers(self, securable: Securable, privileges: Iterable[int]) -> bool:
        """Whether each privilege is granted on the securable or a container of it. False without privileges."""
        ...

    def granted_keys(self, privilege: int, beginning: str = "") -> frozenset[str]:
        """Keys that the privilege is granted on directly, for filtering lists.

        Only keys with the prefix `beginning`, which is stripped.
        """
        ...


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller."""

    name: str
    """Stable name: `root`, a user's name, or `anonymous`."""

    account: str
    """The account that owns what the principal creates: 12 digits."""

    arn: str
    """The identity: `arn:aws:iam::ACCOUNT:user/NAME` or `…:root`. With temporary credentials, their parent identity."""

    is_root: bool = False
    """Root of its account: needs no identity policy there. Denials and session policies still apply."""

    is_anonymous: bool = False

    policies: tuple[bytes, ...] = ()
    """Identity policies, as JSON documents. Any may allow; any may deny."""

    session: Session | None = None
    """Set for temporary credentials."""

    user_id: str = ""
    """Unique and never reused, unlike the name: the value of `aws:userid`."""

    key: LongLivedKey | None = None
    """The key that signed the request, or the parent key of the session. None for anonymous callers and the server
    itself."""

    grants: Grants | None = None
    """Grants of the activated roles; None without roles. They allow and never deny."""

    must_rotate: bool = False
    """Whether the caller's client secret can only be used to rotate it."""

    activated: ActivatedRoles | None = None
    """The roles that its token activates; None for all roles."""

    @property
    def caller_arn(self) -> str:
        """The session's ARN if it has one, else the identity's."""
        session = self.session
        return self.arn if session is None or session.arn is None else session.arn

    @property
    def calling_roles(self) -> ActivatedRoles | None:
        """The activated roles; None for all. Temporary credentials keep the roles of the caller they were issued to."""
        session = self.session
        return self.activated if session is None or session.activated is None else session.activated


ANONYMOUS = Principal(name="anonymous", account="", arn="*", is_anonymous=True)
"""A caller without credentials."""


def root_of(account: str, access_key_id: str | None = None) -> Principal:
    """The root principal of an account, with its key from the settings."""
    key = None if access_key_id is None else LongLivedKey(access_key_id, created_ms=0)
    arn = f"arn:aws:iam::{account}:root"
    return Principal(name="root", account=account, arn=arn, is_root=True, user_id=account, key=key)


@lru_cache(maxsize=1024)
def canonical_id(account: str) -> str:
    """The canonical user id of an account in S3: 64 hex digits, derived from the account only."""
    return hashlib.sha256(b"lakebed canonical id\0" + account.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Credential:
    """An access key with its secret and principal."""

    access_key_id: str
    secret: Secret
    principal: Principal
    expires_ms: int | None = None


class CredentialResolver(Protocol):
    """Finds the credential of an access key, for signature verification."""

    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        """The credential of a valid key; the same object while it is unchanged.

        Raises Unauthenticated (unknown or disabled key, invalid or missing token), CredentialsExpired,
        CredentialsRevoked.
        """
        ...


_NO_CONTEXT: Final[Mapping[str, str | tuple[str, ...]]] = MappingProxyType({})


class AccessRequest(NamedTuple):
    """Whether `principal` has permission for `action` on `resource`.

    A tuple, because each request creates one and creating a frozen dataclass takes twice as long.
    """

    principal: Principal
    action: str
    """As in policies: `s3:GetObject`, `sts:AssumeRole`."""

    resource: str
    """As in policies: `arn:aws:s3:::bucket/key`."""

    context: Mapping[str, str | tuple[str, ...]] = _NO_CONTEXT
    """Condition keys and their values: `aws:SourceIp`, `s3:prefix`, `s3:x-amz-acl`, …

    The authorizer adds those of the principal and the time: `aws:username`, `aws:userid`, `aws:Principal…`.
    """

    securable: Securable | None = None
    """The resource for grants; None for resources without grants."""

    privileges: tuple[int, ...] = ()
    """All privileges that a grant must cover, by number."""

    target: AccessTarget | None = None
    """The resource by name, for entities of a catalog and authorizers with `needs_full_context`."""

    request_id: str = ""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """Owner and access policy of a resource."""

    owner: str
    """The owning account: its identities need no permission from the resource policy."""

    policy: bytes | None = None
    """The resource policy (a bucket policy), as a JSON document."""

    restrict_public_buckets: bool = False
    """RestrictPublicBuckets: a public policy grants nothing to anonymous callers or other accounts."""


class Authorizer(Protocol):
    """Decides all access. Denies by default; an explicit deny wins."""

    @property
    def needs_full_context(self) -> bool:
        """Whether requests need their complete context, and not only the condition keys that policies name."""
        ...

    @property
    def filters_lists(self) -> bool:
        """Whether entries of lists are authorized too, by `visible`."""
        ...

    async def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise, Unavailable if the decision point is unavailable.

        Do not call it inside a transaction: it can wait for a network request.
        """
        ...

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether `authorize` could allow some request of this caller with this action.

        For requests that are not read completely: the resource may be empty and the context incomplete. Never false
        where `authorize` would allow; true has no meaning.
        """
        ...

    async def visible(
        self, request: AccessRequest, rules: ResourceRules, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        """The entries of a list that are visible to the caller of `request`, which was authorized for the list.

        In batches, not one request per entry. Raises Unavailable.
        """
        ...


class PolicyLanguage(Protocol):
    """Validation of bucket policies, for the service that stores them."""

    def check_bucket_policy(self, document: bytes, bucket: str, table_bucket: str = "") -> None:
        """Raise InvalidPolicy, with the reason, unless the document is valid for that bucket.

        `table_bucket` is its ARN in S3 Tables, if it holds tables.
        """
        ...

    def is_public(self, document: bytes) -> bool:
        """Whether the policy is public by S3's definition."""
        ...
