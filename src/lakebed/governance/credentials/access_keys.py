"""Long-lived access keys, with encrypted secrets in the metadata store.

Verifying a signature needs the secret itself, so it is encrypted, not hashed. Encryption is bound to the key id and its
user: a row moved under another name does not decrypt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakebed.core.access import Credential, LongLivedKey
from lakebed.core.clock import Clock
from lakebed.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    InvalidInput,
    NoSuchAccessKey,
    NoSuchPrincipal,
    Unauthenticated,
)
from lakebed.core.ids import new_access_key_id, new_secret_key
from lakebed.core.secrets import Secret
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from ..events import append_access_key_event
from ..model import AccessKey, NewAccessKey, check_key_id, check_secret, is_key_id
from ..principals import principal_from, user_from
from ..rbac.caller_grants import CallerGrants
from ..rbac.rows import CHANGE_NUMBER
from ..validated_cache import ValidatedCache
from .vault import MasterKeys, Vault

_KEY_COLUMNS: Final = "id, principal, enabled, created_ms, rotated_ms, expires_ms"
_HAS_USER: Final = "SELECT 1 FROM principals WHERE name = ?"
_INSERT: Final = (
    "INSERT INTO access_keys (id, principal, secret, enabled, created_ms, rotated_ms, expires_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
_KEY: Final = f"SELECT {_KEY_COLUMNS} FROM access_keys WHERE id = ?"  # noqa: S608 - columns are ours
_KEYS_OF_USER: Final = f"SELECT {_KEY_COLUMNS} FROM access_keys WHERE principal = ? ORDER BY id"  # noqa: S608 - as above
_ENABLE: Final = "UPDATE access_keys SET enabled = ? WHERE id = ?"
_ROTATE: Final = "UPDATE access_keys SET secret = ?, rotated_ms = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM access_keys WHERE id = ?"
_LOOKUP: Final = (
    f"SELECT k.secret, k.enabled, k.created_ms, k.expires_ms, p.name, p.user_id, p.account, p.enabled, p.created_ms,"  # noqa: S608 - constants only
    f" {CHANGE_NUMBER}, g.kind, g.name, g.document"
    " FROM access_keys k JOIN principals p ON p.name = k.principal"
    " LEFT JOIN principal_policies g ON g.principal = p.name"
    " WHERE k.id = ? ORDER BY g.kind, g.name"
)

_PURPOSE: Final = "access key secrets"


class AccessKeys:
    """Creates, changes and finds long-lived keys."""

    def __init__(
        self,
        store: MetaStore,
        outbox: Outbox,
        keys: MasterKeys,
        clock: Clock,
        root: Credential,
        grants: CallerGrants | None = None,
    ) -> None:
        self._store = store
        self._grants = CallerGrants(store) if grants is None else grants
        self._outbox = outbox
        self._vault = Vault(keys, _PURPOSE)
        self._clock = clock
        self._root = root
        self._credentials: ValidatedCache[list[Row], Credential] = ValidatedCache(4096)

    async def lookup(self, access_key_id: str) -> Credential:
        """The credential of a valid key, by one read; none for root. The same object while unchanged.

        A key activates all roles of its user. One more read loads grants after a change of roles or grants.

        Raises Unauthenticated for an unknown or disabled key or a disabled user; CredentialsExpired.
        """
        if access_key_id == self._root.access_key_id:
            return self._root
        # Text that cannot be an id is not queried, and not repeated in the error: the client sent it.
        rows = await self._store.rows(_LOOKUP, access_key_id) if is_key_id(access_key_id) else []
        if not rows:
            raise Unauthenticated("unknown access key")
        sealed, key_enabled, created_ms, expires_ms, *user_row, change_number = rows[0][:10]
        user = user_from(tuple(user_row))
        if not (key_enabled and user.enabled):
            raise Unauthenticated(f"the access key is disabled. access_key_id={access_key_id}")
        if expires_ms is not None and self._clock.now_ms() >= expires_ms:
            raise CredentialsExpired(f"the access key has expired. access_key_id={access_key_id}")
        cached = self._credentials.get(access_key_id, rows)
        if cached is not None:
            return cached
        secret = Secret(self._vault.open(sealed, _context(access_key_id, user.name)).decode())
        grants = await self._grants.of(user.name, change_number)
        principal = principal_from(user, (row[10:] for row in rows), LongLivedKey(access_key_id, created_ms), grants)
        return self._credentials.put(access_key_id, rows, Credential(access_key_id, secret, principal, expires_ms))

    async def has_secret(self, access_key_id: str, secret: Secret) -> bool:
        """Whether the key exists and has this secret, even if it is expired or disabled."""
        rows = await self._store.rows(_LOOKUP, access_key_id) if is_key_id(access_key_id) else []
        if not rows:
            return False
        sealed, user_name = rows[0][0], rows[0][4]
        return Secret(self._vault.open(sealed, _context(access_key_id, user_name)).decode()) == secret

    async def create(
        self,
        user: str,
        *,
        access_key_id: str | None = None,
        secret: Secret | None = None,
        expires_ms: int | None = None,
    ) -> NewAccessKey:
        """Create a key, with the given id and secret or generated ones.

        Raises NoSuchPrincipal, AlreadyExists, InvalidName, InvalidInput.
        """
        now_ms = self._clock.now_ms()
        key_id = new_access_key_id() if access_key_id is None else access_key_id
        secret = Secret(new_secret_key()) if secret is None else secret
        check_key_id(key_id)
        check_secret(secret)
        if expires_ms is not None and expires_ms <= now_ms:
            raise InvalidInput(f"a key must expire in the future. expires_ms={expires_ms}", argument="expires_ms")
        if key_id == self._root.access_key_id:
            raise AlreadyExists(f"access key exists. access_key_id={key_id}")
        key = AccessKey(key_id, user, enabled=True, created_ms=now_ms, rotated_ms=now_ms, expires_ms=expires_ms)
        sealed = self._vault.seal(secret.reveal().encode(), _context(key_id, user))

        async def work(tx: Transaction) -> None:
            if await tx.row(_HAS_USER, user) is None:
                raise NoSuchPrincipal(f"no such user. name={user}")
            if not await tx.run(_INSERT, key_id, user, sealed, 1, now_ms, now_ms, expires_ms):
                raise AlreadyExists(f"access key exists. access_key_id={key_id}")
            await self._append_event(tx, "AccessKeyCreated", key, now_ms)

        await self._store.transact(work)
        return NewAccessKey(key, secret)

    async def key(self, access_key_id: str) -> AccessKey:
        """One key. Raises NoSuchPrincipal."""
        return await _key(self._store, access_key_id)

    async def of_user(self, user: str) -> list[AccessKey]:
        """A user's keys, ordered by id."""
        return [_key_from(row) for row in await self._store.rows(_KEYS_OF_USER, user)]

    async def rotate(self, access_key_id: str) -> NewAccessKey:
        """Replace a key's secret; the old one is invalid at once. Sessions remain. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()
        secret = Secret(new_secret_key())

        async def work(tx: Transaction) -> NewAccessKey:
            key = await _key(tx, access_key_id)
            sealed = self._vault.seal(secret.reveal().encode(), _context(key.id, key.user))
            await tx.run(_ROTATE, sealed, now_ms, key.id)
            await self._append_event(tx, "AccessKeyRotated", key, now_ms)
            return NewAccessKey(replace(key, rotated_ms=now_ms), secret)

        return await self._store.transact(work)

    async def set_enabled(self, access_key_id: str, *, enabled: bool) -> AccessKey:
        """Enable or disable a key and its sessions at once. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> AccessKey:
            key = await _key(tx, access_key_id)
            if key.enabled == enabled:
                return key
            await tx.run(_ENABLE, int(enabled), key.id)
            await self._append_event(tx, "AccessKeyEnabled" if enabled else "AccessKeyDisabled", key, now_ms)
            return replace(key, enabled=enabled)

        return await self._store.transact(work)

    async def delete(self, access_key_id: str) -> None:
        """Delete a key; its sessions end at once. Raises NoSuchPrincipal."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            key = await _key(tx, access_key_id)
            await tx.run(_DELETE, key.id)
            await self._append_event(tx, "AccessKeyDeleted", key, now_ms)

        await self._store.transact(work)

    async def _append_event(self, tx: Transaction, name: str, key: AccessKey, now_ms: int) -> None:
        await append_access_key_event(self._outbox, tx, name, key.user, key.id, self._root.principal, now_ms)


async def _key(reader: Reader, access_key_id: str) -> AccessKey:
    row = await reader.row(_KEY, access_key_id)
    if row is None:
        raise NoSuchAccessKey(f"no such access key. access_key_id={access_key_id}")
    return _key_from(row)


def _key_from(row: Row) -> AccessKey:
    key_id, user, enabled, created_ms, rotated_ms, expires_ms = row
    return AccessKey(key_id, user, bool(enabled), created_ms, rotated_ms, expires_ms)


def _context(access_key_id: str, user: str) -> bytes:
    return f"{access_key_id}\0{user}".encode()
