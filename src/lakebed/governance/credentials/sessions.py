"""Temporary credentials. They are not stored: the session token contains everything, encrypted.

The vault encrypts the token and binds it to the access key id; the secret is derived from that id. The token holds its
parent key and user, session policies, tags and times, but no permissions: those are looked up by the parent key on
every use. So disabling or deleting that key or user ends its sessions at once, in every process; rotating the key's
secret does not. ADR 9 has the reasons.

AssumeRole accepts any role name of the account. It does not select a granted role: the session has the caller's
own permissions. A session can only reduce permissions: every session policy must allow too. A session of a session
keeps the limits of the outer one and does not outlive it.

Only delegated sessions, made by `delegate`, have permissions of their own: vended credentials for a table's files,
whose principal may have no permission on the bucket (ADR 12). Sessions made from them keep their policy.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from lakebed.core.access import ActivatedRoles, Credential, LongLivedKey, Principal, Session
from lakebed.core.clock import Clock
from lakebed.core.errors import (
    AccessDenied,
    Corrupted,
    CredentialsExpired,
    CredentialsRevoked,
    InvalidInput,
    InvalidTag,
    TooLarge,
    Unauthenticated,
)
from lakebed.core.ids import new_access_key_id
from lakebed.core.secrets import Secret

from ..model import TEMPORARY_KEY_PREFIX
from ..policy_language.document import MAX_POLICY_BYTES
from ..policy_language.identity_policy import check_identity_policy
from ..validated_cache import ValidatedCache
from .vault import MasterKeys, Vault

MIN_DURATION_SECONDS: Final = 900
MAX_DURATION_SECONDS: Final = 43_200
MIN_DELEGATION_SECONDS: Final = 60
MAX_DELEGATION_SECONDS: Final = 3600
DEFAULT_DURATION_SECONDS: Final = 3600
DEFAULT_POLICY_BYTES: Final = 2048
MAX_TAGS: Final = 50

_MAX_TOKEN_CHARS: Final = 64 * 1024
_ROLE: Final = re.compile(r"arn:aws:iam::(?P<account>[0-9]{12}):role/(?:[\w+=,.@-]+/)*(?P<name>[\w+=,.@-]{1,64})", re.A)
_SESSION_NAME: Final = re.compile(r"[\w+=,.@-]{2,64}", re.A)
_SEALING: Final = "session tokens"
_SIGNING: Final = "session secrets"


class HasPrincipal(Protocol):
    """A result that has a principal, such as a credential."""

    @property
    def principal(self) -> Principal:
        """The principal."""
        ...


class LongLivedKeys(Protocol):
    """Lookup of long-lived keys."""

    async def lookup(self, key_id: str, /) -> HasPrincipal:
        """The principal of a valid key. Raises Unauthenticated, CredentialsExpired."""
        ...


@dataclass(frozen=True, slots=True)
class TemporaryKey:
    """The result of an STS request."""

    access_key_id: str
    secret: Secret
    session_token: Secret
    session: Session
    principal: Principal
    """The principal with the session."""


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    """The content of a session token."""

    key_id: str
    key_created_ms: int
    user_id: str
    arn: str | None
    issued_ms: int
    expires_ms: int
    policies: tuple[bytes, ...]
    tags: tuple[tuple[str, str], ...]
    # Tokens of earlier releases end here.
    delegated_for: str = ""
    outer_policies: tuple[bytes, ...] = ()
    delegation: str = ""
    """Only in sessions made from a delegated session. For the delegated session itself it is the access key id."""
    obtained_by: str = ""
    roles: tuple[str, ...] | None = None
    roles_by_provider: bool = False


@dataclass(frozen=True, slots=True)
class OpenedToken:
    """A valid token that has not expired. Whether its parent key is still valid is not checked."""

    key: LongLivedKey
    user_id: str
    session: Session
    secret: Secret


class Sessions:
    """Issues temporary keys and opens their tokens."""

    def __init__(
        self,
        keys: MasterKeys,
        long_lived_keys: LongLivedKeys,
        clock: Clock,
        *,
        max_policy_bytes: int = DEFAULT_POLICY_BYTES,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._keys = keys
        self._long_lived_keys = long_lived_keys
        self._clock = clock
        self._max_policy_bytes = min(max_policy_bytes, MAX_POLICY_BYTES)
        self._vault = Vault(keys, _SEALING, entropy)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(_Claims).decode
        self._unsealed = lru_cache(maxsize=4096)(self._unseal)
        self._credentials: ValidatedCache[Principal, Credential] = ValidatedCache(4096)

    def issue(
        self,
        principal: Principal,
        *,
        role_arn: str | None = None,
        session_name: str = "",
        policy: bytes | None = None,
        duration_seconds: int = DEFAULT_DURATION_SECONDS,
        tags: Mapping[str, str] | None = None,
    ) -> TemporaryKey:
        """Issue a temporary key. Without a role, requests have the caller's own ARN.

        The caller has authorized `sts:AssumeRole` or `sts:GetSessionToken`, and `sts:TagSession` for tags. Raises
        InvalidInput, InvalidPolicy, InvalidTag, TooLarge; AccessDenied for a role of another account.
        """
        arn = None if role_arn is None else _session_arn(principal, role_arn, session_name)
        outer = principal.session
        policies = () if outer is None else outer.policies
        if policy is not None:
            check_identity_policy(policy)
            policies = (*policies, policy)
        if sum(map(len, policies)) > self._max_policy_bytes:
            raise TooLarge(f"session policies are too large. maximum={self._max_policy_bytes}", argument="Policy")
        if not MIN_DURATION_SECONDS <= duration_seconds <= MAX_DURATION_SECONDS:
            raise InvalidInput(
                f"a session lasts {MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS} seconds. found={duration_seconds}",
                argument="DurationSeconds",
                value=str(duration_seconds),
            )
        session = Session(
            arn,
            *self._life(outer, duration_seconds),
            policies,
            _all_tags(outer, tags or {}),
            # Inherited together with the catalog's policy: all policies must allow, so this cannot add permissions.
            "" if outer is None else outer.delegated_for,
            () if outer is None else outer.outer_policies,
            "" if outer is None else outer.delegation,
            "" if outer is None else outer.obtained_by,
            principal.calling_roles,
        )
        return self._seal(principal, session)

    def delegate(
        self, principal: Principal, *, table: str, policy: bytes, duration_seconds: int, request_id: str = ""
    ) -> TemporaryKey:
        """Issue a key that `policy` alone gives permissions. Policies of the caller can still deny.

        Only for the catalog, which has authorized access to the files of `table`. The token contains the request id, so
        that its use can be traced. Raises InvalidInput, InvalidPolicy; AccessDenied for a caller with such a key.
        """
        outer = principal.session
        if outer is not None and outer.delegated_for:
            raise AccessDenied("vended credentials cannot be used to obtain vended credentials")
        if not table or not MIN_DELEGATION_SECONDS <= duration_seconds <= MAX_DELEGATION_SECONDS:
            raise InvalidInput(
                f"vended credentials name a table and last {MIN_DELEGATION_SECONDS} to"
                f" {MAX_DELEGATION_SECONDS} seconds. found={duration_seconds}"
            )
        check_identity_policy(policy)
        access_key_id = new_access_key_id(TEMPORARY_KEY_PREFIX)
        session = Session(
            # Keep the caller's session ARN and tags: denies that name them must still apply.
            None if outer is None else outer.arn,
            *self._life(outer, duration_seconds),
            (policy,),
            _all_tags(outer, {}),
            table,
            () if outer is None else outer.policies,
            access_key_id,
            request_id,
            principal.calling_roles,
        )
        return self._seal(principal, session, access_key_id)

    def _life(self, outer: Session | None, duration_seconds: int) -> tuple[int, int]:
        """Start and expiry of a session."""
        issued_ms = self._clock.now_ms()
        expires_ms = issued_ms + duration_seconds * 1000
        # A stolen key must not extend itself without end.
        return issued_ms, expires_ms if outer is None else min(expires_ms, outer.expires_ms)

    def open(self, session_token: str, access_key_id: str) -> OpenedToken:
        """Open a token. Raises Unauthenticated if it is invalid or of another key, CredentialsExpired."""
        if len(session_token) > _MAX_TOKEN_CHARS:
            raise Unauthenticated("the session token is not valid")
        opened = self._unsealed(session_token, access_key_id)
        if self._clock.now_ms() >= opened.session.expires_ms:
            raise CredentialsExpired("the session token has expired")
        return opened

    async def credential(self, session_token: str, access_key_id: str) -> Credential:
        """The credential of a temporary key, verified by one read of its parent key.

        Raises Unauthenticated if the token is invalid; CredentialsExpired if it or its parent key has expired;
        CredentialsRevoked if that key or its user was deleted, disabled or replaced.
        """
        opened = self.open(session_token, access_key_id)
        try:
            parent = (await self._long_lived_keys.lookup(opened.key.id)).principal
        except CredentialsExpired:
            raise
        except Unauthenticated as error:
            raise CredentialsRevoked("the parent key of the session is disabled or deleted") from error
        if (parent.key, parent.user_id) != (opened.key, opened.user_id):
            raise CredentialsRevoked("the parent key of the session was replaced")
        cached = self._credentials.get(session_token, parent)
        if cached is not None:
            return cached
        principal = replace(parent, session=opened.session)
        credential = Credential(access_key_id, opened.secret, principal, opened.session.expires_ms)
        return self._credentials.put(session_token, parent, credential)

    def _seal(self, principal: Principal, session: Session, access_key_id: str = "") -> TemporaryKey:
        key = principal.key
        if key is None:
            raise AccessDenied("a session requires a key, and an anonymous caller has none")
        access_key_id = access_key_id or new_access_key_id(TEMPORARY_KEY_PREFIX)
        claims = _Claims(
            key.id,
            key.created_ms,
            principal.user_id,
            session.arn,
            session.issued_ms,
            session.expires_ms,
            session.policies,
            session.tags,
            session.delegated_for,
            session.outer_policies,
            "" if session.delegation == access_key_id else session.delegation,
            session.obtained_by,
            None if session.activated is None else tuple(sorted(session.activated.names)),
            session.activated is not None and session.activated.by_provider,
        )
        sealed = self._vault.seal(self._encode(claims), access_key_id.encode())
        token = base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()
        secret = self._secret(access_key_id, self._vault.key_id(sealed))
        return TemporaryKey(access_key_id, secret, Secret(token), session, replace(principal, session=session))

    def _unseal(self, session_token: str, access_key_id: str) -> OpenedToken:
        try:
            plain = session_token.encode("ascii").translate(_FROM_URLSAFE)
            sealed = binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
            claims = self._decode(self._vault.open(sealed, access_key_id.encode()))
        except (UnicodeEncodeError, binascii.Error, Corrupted, msgspec.DecodeError) as error:
            raise Unauthenticated("the session token is not valid") from error
        session = Session(
            claims.arn,
            claims.issued_ms,
            claims.expires_ms,
            claims.policies,
            claims.tags,
            claims.delegated_for,
            claims.outer_policies,
            claims.delegation or (access_key_id if claims.delegated_for else ""),
            claims.obtained_by,
            None if claims.roles is None else ActivatedRoles(frozenset(claims.roles), claims.roles_by_provider),
        )
        secret = self._secret(access_key_id, self._vault.key_id(sealed))
        return OpenedToken(LongLivedKey(claims.key_id, claims.key_created_ms), claims.user_id, session, secret)

    def _secret(self, access_key_id: str, key_id: str) -> Secret:
        key = self._keys.derive(_SIGNING, key_id)
        digest = hmac.new(key, access_key_id.encode(), hashlib.sha256).digest()
        return Secret(base64.urlsafe_b64encode(digest[:30]).decode())


_FROM_URLSAFE: Final = bytes.maketrans(b"-_", b"+/")


def _session_arn(principal: Principal, role_arn: str, session_name: str) -> str:
    role = _ROLE.fullmatch(role_arn)
    if role is None:
        raise InvalidInput("a role ARN reads arn:aws:iam::ACCOUNT:role/NAME", argument="RoleArn", value=role_arn)
    if role["account"] != principal.account:
        raise AccessDenied(f"role belongs to another account. principal={principal.caller_arn} role={role_arn}")
    if not _SESSION_NAME.fullmatch(session_name):
        raise InvalidInput(
            "a session name has 2 to 64 letters, digits or +=,.@_-", argument="RoleSessionName", value=session_name
        )
    return f"arn:aws:sts::{principal.account}:assumed-role/{role['name']}/{session_name}"


def _all_tags(outer: Session | None, tags: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The outer session's tags and new ones. A new tag cannot replace an inherited one."""
    if len(tags) > MAX_TAGS:
        raise InvalidTag(f"a session has at most {MAX_TAGS} tags. found={len(tags)}")
    for key, value in tags.items():
        if not 0 < len(key) <= 128 or len(value) > 256:
            raise InvalidTag(
                f"a session tag has a key of 1 to 128 and a value of up to 256 characters. key={key[:128]}"
            )
    return tuple(sorted({**tags, **dict(outer.tags if outer is not None else ())}.items()))
