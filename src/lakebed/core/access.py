"""Who asks for what: the values that every edge hands to the one authorizer.

The authorizer itself lives in `governance`; services hold only the protocols below, so that none of them can grow an
access rule of its own.
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
"""The account of a server that was given none."""


@dataclass(frozen=True, slots=True)
class LongLivedKey:
    """A lasting access key, without its secret: what tells it from every other, earlier ones of the same id too."""

    id: str
    created_ms: int
    """0 for root's, which the settings give."""


class ActivatedRoles(NamedTuple):
    """The principal roles that a caller's token names."""

    names: frozenset[str]
    by_provider: bool = False
    """Whether a provider of identities says so: then it may name roles that nobody is given here."""


@dataclass(frozen=True, slots=True)
class Session:
    """What temporary keys add to the identity behind them: limits, and facts for policies.

    Never rights, but for one kind: keys that the catalog hands out for the files of a table. For those the catalog has
    decided who may have them, and vouches for what its own policy allows.
    """

    arn: str | None
    """`arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION`, or None for keys that claim no role."""

    issued_ms: int
    expires_ms: int

    policies: tuple[bytes, ...] = ()
    """Session policies, as JSON documents. Each of them must allow, besides the identity."""

    tags: tuple[tuple[str, str], ...] = ()
    """Session tags, seen by policies as `aws:PrincipalTag/KEY`."""

    delegated_for: str = ""
    """The id of the table for whose files the catalog handed the keys out; empty for sessions of any other kind.

    Then `policies` begins with the catalog's own, and no identity policy has to allow what all of them allow.
    """

    outer_policies: tuple[bytes, ...] = ()
    """Policies of the session that asked the catalog. They may deny and need not allow: they speak of the catalog."""

    delegation: str = ""
    """The id of the key that the catalog handed out, of sessions made of that one too: what uses are traced by."""

    obtained_by: str = ""
    """The id of the request that it was handed out to."""

    activated: ActivatedRoles | None = None
    """The roles of the token that asked for the keys; None if it was not a token, or one for all roles."""


class Securable(NamedTuple):
    """Something that privileges can be held on, as the way to it."""

    path: tuple[str, ...]
    """Keys of all that it lies in, outermost first, and its own behind them: `service`, `catalog 3`, `namespace 3 ns`.

    By ids, but for namespaces. What has the name of one that is gone is another: who drops one sees to it that
    nothing is held on the name any more.
    """


class AccessTarget(NamedTuple):
    """What a question is about, by names: for who decides elsewhere and knows no ids of ours."""

    kind: str
    """`CATALOG`, `NAMESPACE` or `TABLE_LIKE`, as Apache Polaris has them."""

    path: tuple[str, ...]
    """The name of the catalog, the levels of the namespace, the name in it: as many as there are."""


class Grants(Protocol):
    """The privileges that a caller's roles hold."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of these roles, in order."""
        ...

    def covers(self, securable: Securable, privileges: Iterable[int]) -> bool:
        """Whether each of the privileges is held on something on the way. Not so if none is asked for."""
        ...

    def granted_keys(self, privilege: int, beginning: str = "") -> frozenset[str]:
        """The keys of what the privilege is held on itself, for lists of what may be seen.

        Only those that begin so, and without it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, as established by an edge."""

    name: str
    """Stable name: `root`, a user's name, or `anonymous`."""

    account: str
    """The account that owns what the principal makes: 12 digits."""

    arn: str
    """The identity: `arn:aws:iam::ACCOUNT:user/NAME` or `…:root`. With temporary keys, the identity behind them."""

    is_root: bool = False
    """Root of its account: needs no identity policy there. Limits still bind it: denials, session policies."""

    is_anonymous: bool = False

    policies: tuple[bytes, ...] = ()
    """Identity policies, as JSON documents. Any may allow; any may deny."""

    session: Session | None = None
    """Set when the caller uses temporary keys."""

    user_id: str = ""
    """Unique and never used again, unlike the name: what `aws:userid` says."""

    key: LongLivedKey | None = None
    """The key that signed, or that the session came from. None for who needs none: anonymous, the server itself."""

    grants: Grants | None = None
    """What the activated roles hold; None for who has none. They may allow, and never deny."""

    must_rotate: bool = False
    """Whether the caller's client secret is good for nothing but to be rotated by its user."""

    activated: ActivatedRoles | None = None
    """The roles that its token is for; None for all that it has."""

    @property
    def caller_arn(self) -> str:
        """The ARN to show: the session's if it has one, else the identity's."""
        session = self.session
        return self.arn if session is None or session.arn is None else session.arn

    @property
    def calling_roles(self) -> ActivatedRoles | None:
        """The roles that it calls with; None for all that it has. Keys are for the roles of who asked for them."""
        session = self.session
        return self.activated if session is None or session.activated is None else session.activated


ANONYMOUS = Principal(name="anonymous", account="", arn="*", is_anonymous=True)
"""A caller that gave no credentials."""


def root_of(account: str, access_key_id: str | None = None) -> Principal:
    """The root principal of an account, with the key that the settings give it."""
    key = None if access_key_id is None else LongLivedKey(access_key_id, created_ms=0)
    arn = f"arn:aws:iam::{account}:root"
    return Principal(name="root", account=account, arn=arn, is_root=True, user_id=account, key=key)


@lru_cache(maxsize=1024)
def canonical_id(account: str) -> str:
    """The account's id as S3 shows owners: 64 hex digits, the same on every server and at every time."""
    return hashlib.sha256(b"lakebed canonical id\0" + account.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Credential:
    """An access key with its secret, and who calls with it."""

    access_key_id: str
    secret: Secret
    principal: Principal
    expires_ms: int | None = None


class CredentialResolver(Protocol):
    """Whose key is this? What an edge asks before it checks a signature."""

    async def credential(self, access_key_id: str, session_token: str | None = None) -> Credential:
        """The credential of a key that is good now. The object is the same as long as nothing about it changed.

        Raises Unauthenticated (unknown or disabled key, foreign or missing token), CredentialsExpired,
        CredentialsRevoked.
        """
        ...


_NO_CONTEXT: Final[Mapping[str, str | tuple[str, ...]]] = MappingProxyType({})


class AccessRequest(NamedTuple):
    """One question: whether `principal` may do `action` on `resource`.

    A tuple, because one is made for every request and a frozen dataclass takes twice as long to make.
    """

    principal: Principal
    action: str
    """As in policies: `s3:GetObject`, `sts:AssumeRole`."""

    resource: str
    """As in policies: `arn:aws:s3:::bucket/key`."""

    context: Mapping[str, str | tuple[str, ...]] = _NO_CONTEXT
    """Condition keys and their values: `aws:SourceIp`, `s3:prefix`, `s3:x-amz-acl`, …

    The authorizer adds what it knows itself: `aws:username`, `aws:userid`, `aws:Principal…`, the time.
    """

    securable: Securable | None = None
    """The resource as grants know it; None for what no grant is about."""

    privileges: tuple[int, ...] = ()
    """What the action takes of who holds grants: all of them, by number."""

    target: AccessTarget | None = None
    """The resource by its names, where it is of a catalog and somebody reads them."""

    request_id: str = ""
    """Of the request that the question comes of."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """What the resource itself says of access."""

    owner: str
    """The account that owns it: its identities need no grant from the resource policy."""

    policy: bytes | None = None
    """The resource policy (a bucket policy), as a JSON document."""

    restrict_public_buckets: bool = False
    """RestrictPublicBuckets: a public policy grants nothing to anonymous callers or other accounts."""


class Authorizer(Protocol):
    """The one place where access is decided. Deny by default; explicit deny wins."""

    @property
    def needs_full_context(self) -> bool:
        """Whether somebody reads all that is known of every request, and not only what its policies may name."""
        ...

    @property
    def filters_lists(self) -> bool:
        """Whether it is to be asked about what lists show, too."""
        ...

    async def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise, Unavailable if who has to say so does not answer.

        Not to be asked inside a transaction: the answer may take as long as a request over the network.
        """
        ...

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether `authorize` could allow some request with this action, by this caller.

        Asked before a request is read whole: its resource may be empty and its context is not complete. Never false
        where `authorize` would allow; true says nothing.
        """
        ...

    async def visible(
        self, request: AccessRequest, rules: ResourceRules, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        """Those of `targets` that a list shows to the caller of `request`, who may see the list.

        As many questions as it takes, not one for each of them. Raises Unavailable.
        """
        ...


class PolicyLanguage(Protocol):
    """What a service that stores bucket policies asks of the language they are written in."""

    def check_bucket_policy(self, document: bytes, bucket: str, table_bucket: str = "") -> None:
        """Raise InvalidPolicy, with the reason, unless the document may stand on that bucket.

        `table_bucket` is its ARN in S3 Tables, if it holds tables.
        """
        ...

    def is_public(self, document: bytes) -> bool:
        """Whether the document grants something to everybody, by S3's definition."""
        ...
