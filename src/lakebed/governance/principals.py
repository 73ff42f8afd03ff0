"""Users and their policies, in the metadata store. Root comes from the settings and is not stored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from lakebed.core.access import Grants, LongLivedKey, Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, Corrupted, InvalidInput, InvalidPolicy, NoSuchPrincipal, NoSuchUserPolicy
from lakebed.core.ids import new_access_key_id
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from .events import append_access_key_event, append_user_event, append_user_policy_event
from .model import User, UserPolicy, check_account, check_policy_name, check_user_name
from .policy_language.canned import CANNED_POLICIES
from .policy_language.identity_policy import check_identity_policy, unknown_actions
from .rbac.principal_roles import append_revocation_events, revoke_all_roles

MAX_POLICIES: Final = 50
"""Most policies of one user: every key lookup reads them."""

_USER_COLUMNS: Final = "name, user_id, account, enabled, created_ms"
_INSERT_USER: Final = (
    f"INSERT INTO principals ({_USER_COLUMNS}, updated_ms) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"  # noqa: S608 - columns are ours
)
_USER: Final = f"SELECT {_USER_COLUMNS} FROM principals WHERE name = ?"  # noqa: S608 - columns are ours
_USERS: Final = f"SELECT {_USER_COLUMNS} FROM principals WHERE name > ? ORDER BY name LIMIT ?"  # noqa: S608 - as above
_ENABLE_USER: Final = "UPDATE principals SET enabled = ? WHERE name = ?"
_DELETE_USER: Final = "DELETE FROM principals WHERE name = ?"
_USER_KEYS: Final = "SELECT id FROM access_keys WHERE principal = ? ORDER BY id"
_DELETE_USER_KEYS: Final = "DELETE FROM access_keys WHERE principal = ?"
_DELETE_USER_POLICIES: Final = "DELETE FROM principal_policies WHERE principal = ?"

_POLICIES: Final = "SELECT kind, name, document FROM principal_policies WHERE principal = ? ORDER BY kind, name"
_PUT_POLICY: Final = (
    "INSERT INTO principal_policies (principal, kind, name, document) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (principal, kind, name) DO UPDATE SET document = excluded.document"
    " WHERE principal_policies.document IS DISTINCT FROM excluded.document"
)
_COUNT_POLICIES: Final = "SELECT count(*) FROM principal_policies WHERE principal = ?"
_DELETE_POLICY: Final = "DELETE FROM principal_policies WHERE principal = ? AND kind = ? AND name = ?"

_INLINE: Final = "inline"
_CANNED: Final = "canned"


class Principals:
    """Creates, changes and finds users."""

    def __init__(self, store: MetaStore, outbox: Outbox, clock: Clock, root: Principal) -> None:
        self._store = store
        self._outbox = outbox
        self._clock = clock
        self._root = root

    async def create_user(self, name: str, *, account: str | None = None, canned: Sequence[str] = ()) -> User:
        """Create a user, with canned policies by name, in root's account or another one.

        Raises InvalidName, NoSuchPrincipal for an unknown canned policy, AlreadyExists.
        """
        check_user_name(name)
        account = self._root.account if account is None else account
        check_account(account)
        attached = tuple(dict.fromkeys(canned))
        for policy in attached:
            canned_document(policy)
        user = User(name, new_access_key_id("LKBU"), account, enabled=True, created_ms=self._clock.now_ms())

        async def work(tx: Transaction) -> None:
            await insert_user(tx, user)
            for policy in attached:
                await tx.run(_PUT_POLICY, name, _CANNED, policy, None)
            await append_user_event(self._outbox, tx, "UserCreated", user, self._root, user.created_ms)
            for policy in attached:
                await self._append_policy_event(tx, "PolicyAttached", name, _CANNED, policy, user.created_ms)

        await self._store.transact(work)
        return user

    async def user(self, name: str) -> User:
        """The user of that name. Raises NoSuchPrincipal."""
        return await find_user(self._store, name)

    async def users(self, *, after: str = "", limit: int = 1000) -> list[User]:
        """Users ordered by name, starting after `after`."""
        return [user_from(row) for row in await self._store.rows(_USERS, after, limit)]

    async def set_user_enabled(self, name: str, *, enabled: bool) -> User:
        """Enable or disable a user, with its keys and sessions at once. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> User:
            user = await find_user(tx, name)
            if user.enabled == enabled:
                return user
            await tx.run(_ENABLE_USER, int(enabled), name)
            kind = "UserEnabled" if enabled else "UserDisabled"
            await append_user_event(self._outbox, tx, kind, user, self._root, now_ms)
            return replace(user, enabled=enabled)

        return await self._store.transact(work)

    async def delete_user(self, name: str) -> None:
        """Delete a user with its keys, policies and roles; its sessions end at once. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await remove_user(tx, self._outbox, name, self._root, now_ms)

        await self._store.transact(work)

    async def put_policy(self, user: str, policy: str, document: bytes) -> None:
        """Put an inline policy, replacing one of the same name. Raises InvalidPolicy, NoSuchPrincipal."""
        check_policy_name(policy)
        check_identity_policy(document)
        await self._put(user, _INLINE, policy, document)

    async def delete_policy(self, user: str, policy: str) -> None:
        """Delete an inline policy. Raises NoSuchPrincipal if it does not exist."""
        await self._drop(user, _INLINE, policy)

    async def attach_canned(self, user: str, policy: str) -> None:
        """Attach a canned policy. Idempotent. Raises NoSuchPrincipal."""
        canned_document(policy)
        await self._put(user, _CANNED, policy, None)

    async def detach_canned(self, user: str, policy: str) -> None:
        """Detach a canned policy. Raises NoSuchPrincipal if it is not attached."""
        await self._drop(user, _CANNED, policy)

    async def policies(self, user: str) -> list[UserPolicy]:
        """The user's policies, canned ones first. Raises NoSuchPrincipal."""
        await find_user(self._store, user)
        rows = await self._store.rows(_POLICIES, user)
        return [
            UserPolicy(name, kind == _CANNED, policy_document(kind, name, document)) for kind, name, document in rows
        ]

    async def _put(self, user: str, kind: str, policy: str, document: bytes | None) -> None:
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            await find_user(tx, user)
            if not await tx.run(_PUT_POLICY, user, kind, policy, document):
                return
            counted = await tx.row(_COUNT_POLICIES, user)
            if counted is not None and counted[0] > MAX_POLICIES:
                raise InvalidInput(f"too many policies of one user. user={user} maximum={MAX_POLICIES}")
            await self._append_policy_event(tx, "PolicyAttached", user, kind, policy, now_ms)

        await self._store.transact(work)

    async def _drop(self, user: str, kind: str, policy: str) -> None:
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            if not await tx.run(_DELETE_POLICY, user, kind, policy):
                raise NoSuchUserPolicy(f"no such policy of that user. user={user} policy={policy}")
            await self._append_policy_event(tx, "PolicyDetached", user, kind, policy, now_ms)

        await self._store.transact(work)

    async def _append_policy_event(
        self, tx: Transaction, name: str, user: str, kind: str, policy: str, now_ms: int
    ) -> None:
        await append_user_policy_event(
            self._outbox, tx, name, user, policy, self._root, now_ms, is_canned=kind == _CANNED
        )


async def insert_user(tx: Transaction, user: User) -> None:
    """Store a user. Raises AlreadyExists."""
    columns = (user.name, user.user_id, user.account, int(user.enabled), user.created_ms)
    if not await tx.run(_INSERT_USER, *columns, user.created_ms):
        raise AlreadyExists(f"user exists. name={user.name}")


async def remove_user(tx: Transaction, outbox: Outbox, name: str, caller: Principal, now_ms: int) -> None:
    """Delete a user with its keys, policies and roles, and append their events. Raises NoSuchPrincipal."""
    user = await find_user(tx, name)
    keys = await tx.rows(_USER_KEYS, name)
    policies = await tx.rows(_POLICIES, name)
    roles = await revoke_all_roles(tx, name)
    await tx.run(_DELETE_USER_KEYS, name)
    await tx.run(_DELETE_USER_POLICIES, name)
    await tx.run(_DELETE_USER, name)
    for (key_id,) in keys:
        await append_access_key_event(outbox, tx, "AccessKeyDeleted", name, key_id, caller, now_ms)
    for kind, policy, _ in policies:
        await append_user_policy_event(
            outbox, tx, "PolicyDetached", name, policy, caller, now_ms, is_canned=kind == _CANNED
        )
    await append_revocation_events(outbox, tx, name, roles, caller, now_ms)
    await append_user_event(outbox, tx, "UserDeleted", user, caller, now_ms)


async def find_user(reader: Reader, name: str) -> User:
    """The user of that name. Raises NoSuchPrincipal."""
    row = await reader.row(_USER, name)
    if row is None:
        raise NoSuchPrincipal(f"no such user. name={name}")
    return user_from(row)


def user_from(row: Row) -> User:
    """A user from name, user_id, account, enabled, created_ms."""
    name, user_id, account, enabled, created_ms = row
    return User(name, user_id, account, bool(enabled), created_ms)


def principal_from(user: User, policies: Iterable[Row], key: LongLivedKey, grants: Grants | None = None) -> Principal:
    """A principal. `policies` holds kind, name and document of each policy, all None for a user without any."""
    documents = tuple(policy_document(kind, name, document) for kind, name, document in policies if kind is not None)
    return Principal(
        user.name, user.account, user.arn, policies=documents, user_id=user.user_id, key=key, grants=grants
    )


def canned_document(name: str) -> bytes:
    """A canned policy by name. Raises NoSuchPrincipal."""
    document = CANNED_POLICIES.get(name)
    if document is None:
        raise NoSuchUserPolicy(f"no such canned policy. policy={name} known={','.join(sorted(CANNED_POLICIES))}")
    return document


def policy_document(kind: str, name: str, document: bytes | None) -> bytes:
    """The document of a stored policy. Raises Corrupted for an unknown canned policy."""
    if kind == _INLINE and document is not None:
        return document
    found = CANNED_POLICIES.get(name)
    if found is None:
        raise Corrupted(f"user has an unknown canned policy. policy={name}")
    return found


_PAGE: Final = 500
_INLINE_POLICIES: Final = (
    "SELECT principal, name, document FROM principal_policies WHERE kind = 'inline'"
    " AND (principal > ? OR (principal = ? AND name > ?)) ORDER BY principal, name LIMIT ?"
)


class StoredPolicyProblem(NamedTuple):
    """A problem with a user's policy."""

    principal: str
    policy: str
    problem: str


async def stored_policy_problems(reader: Reader) -> AsyncIterator[StoredPolicyProblem]:
    """The unknown actions in inline policies, ordered by user. One read per 500 policies."""
    principal, policy = "", ""
    while True:
        rows = await reader.rows(_INLINE_POLICIES, principal, principal, policy, _PAGE)
        for principal, policy, document in rows:
            for problem in _problems(document):
                yield StoredPolicyProblem(principal, policy, problem)
        if len(rows) < _PAGE:
            return


def _problems(document: bytes) -> list[str]:
    try:
        return unknown_actions(document)
    except InvalidPolicy as error:
        return [f"policy does not parse: {error}"]
