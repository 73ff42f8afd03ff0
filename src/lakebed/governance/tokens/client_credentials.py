"""Client credentials: a client id, the current secret and the previous one.

Rotation replaces the current secret and keeps it as the previous one, valid until the next rotation. A reset
invalidates both at once. Tokens are valid while the secret is that they were issued for (ADR 17).

Secrets are stored as hashes, computed before the transaction (`HashedSecret`) because hashing is slow.
"""

from __future__ import annotations

import secrets
from typing import Final

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import AlreadyExists, InvalidInput, StateConflict
from lakebed.core.secrets import Secret
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Transaction

from ..events import append_client_event
from ..model import User, check_key_id, check_secret
from .model import ClientCredentialInfo, HashedSecret, NewClientCredentials
from .secret_hashes import SecretHasher

_COLUMNS: Final = "client_id, user_id, generation, secondary IS NOT NULL, created_ms, rotated_ms"
_PAIR: Final = f"SELECT {_COLUMNS} FROM client_credentials WHERE user_id = ?"  # noqa: S608 - columns are ours
_INSERT: Final = (
    "INSERT INTO client_credentials (client_id, user_id, main, generation, created_ms, rotated_ms, rotate_only)"
    " VALUES (?, ?, ?, 1, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_ROTATE: Final = (
    "UPDATE client_credentials SET secondary = main, main = ?, generation = generation + 1, rotated_ms = ?"
    " WHERE user_id = ?"
)
_RESET: Final = (
    "UPDATE client_credentials SET client_id = ?, main = ?, secondary = NULL, generation = generation + 1,"
    " rotated_ms = ? WHERE user_id = ?"
)
_TAKEN: Final = (
    "SELECT 1 FROM client_credentials WHERE client_id = ? AND user_id <> ?"
    " UNION ALL SELECT 1 FROM access_keys WHERE id = ?"
)

_ID_BYTES: Final = 8
_SECRET_BYTES: Final = 16


def new_client_id() -> str:
    """16 hexadecimal digits."""
    return secrets.token_hex(_ID_BYTES)


def new_client_secret() -> Secret:
    """32 hexadecimal digits."""
    return Secret(secrets.token_hex(_SECRET_BYTES))


class ClientCredentialStore:
    """Creates and changes client credentials."""

    def __init__(
        self, store: MetaStore, outbox: Outbox, hashes: SecretHasher, clock: Clock, root: Principal, root_client_id: str
    ) -> None:
        """`root_client_id` is root's access key, configured in the settings and reserved."""
        self._store = store
        self._outbox = outbox
        self._hashes = hashes
        self._clock = clock
        self._root = root
        self._root_client_id = root_client_id

    async def prepare(self, secret: Secret | None = None) -> HashedSecret:
        """A given or generated secret with its hash. Raises InvalidInput."""
        if secret is None:
            secret = new_client_secret()
        check_secret(secret)
        return await self._hashes.hash(secret)

    async def of_user(self, user: User) -> ClientCredentialInfo | None:
        """The user's credentials, without their secrets."""
        return await _pair(self._store, user.user_id)

    async def create(
        self,
        tx: Transaction,
        user: User,
        fresh: HashedSecret | None = None,
        *,
        caller: Principal | None = None,
        rotation_required: bool = False,
    ) -> NewClientCredentials:
        """Create credentials for a user, in the transaction that creates the user or another one. Call it last.

        Without `fresh`, a secret is generated and hashed, which blocks. With `rotation_required`, tokens of this first
        secret only permit its rotation. Raises StateConflict if the user has credentials.
        """
        if fresh is None:
            fresh = self._hashes.hash_now(new_client_secret())
        client_id, now_ms = new_client_id(), self._clock.now_ms()
        rotate_only = 1 if rotation_required else None
        if not await tx.run(_INSERT, client_id, user.user_id, fresh.hash, now_ms, now_ms, rotate_only):
            raise StateConflict(f"the user has client credentials. user={user.name}")
        await self._append_event(tx, "ClientCredentialsCreated", user, client_id, caller, now_ms)
        return NewClientCredentials(client_id, fresh.secret)

    async def rotate(self, user: User, *, caller: Principal | None = None) -> NewClientCredentials:
        """Generate a new secret; the current one is valid until the next rotation. Raises InvalidInput if missing."""
        fresh = await self.prepare()
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> NewClientCredentials:
            pair = await _require_pair(tx, user)
            await tx.run(_ROTATE, fresh.hash, now_ms, user.user_id)
            await self._append_event(tx, "ClientCredentialsRotated", user, pair.client_id, caller, now_ms)
            return NewClientCredentials(pair.client_id, fresh.secret)

        return await self._store.transact(work)

    async def reset(
        self,
        user: User,
        *,
        client_id: str | None = None,
        secret: Secret | None = None,
        caller: Principal | None = None,
    ) -> NewClientCredentials:
        """Replace both secrets, and optionally the client id. Invalidates all tokens of the credentials.

        Raises InvalidInput if the user has none, InvalidName, AlreadyExists if the client id is taken.
        """
        if client_id is not None:
            check_key_id(client_id)
        fresh = await self.prepare(secret)
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> NewClientCredentials:
            pair = await _require_pair(tx, user)
            chosen = client_id or pair.client_id
            taken = await tx.row(_TAKEN, chosen, user.user_id, chosen)
            if taken is not None or chosen == self._root_client_id:
                raise AlreadyExists(f"client id is taken. client_id={chosen}")
            await tx.run(_RESET, chosen, fresh.hash, now_ms, user.user_id)
            await self._append_event(tx, "ClientCredentialsReset", user, chosen, caller, now_ms)
            return NewClientCredentials(chosen, fresh.secret)

        return await self._store.transact(work)

    async def _append_event(
        self, tx: Transaction, name: str, user: User, client_id: str, caller: Principal | None, now_ms: int
    ) -> None:
        await append_client_event(self._outbox, tx, name, user.name, client_id, caller or self._root, now_ms)


async def _pair(reader: Reader, user_id: str) -> ClientCredentialInfo | None:
    row = await reader.row(_PAIR, user_id)
    if row is None:
        return None
    client_id, user_id, generation, has_secondary, created_ms, rotated_ms = row
    return ClientCredentialInfo(client_id, user_id, generation, bool(has_secondary), created_ms, rotated_ms)


async def _require_pair(reader: Reader, user: User) -> ClientCredentialInfo:
    pair = await _pair(reader, user.user_id)
    if pair is None:
        raise InvalidInput(f"the user has no client credentials. user={user.name}", argument="principal")
    return pair
