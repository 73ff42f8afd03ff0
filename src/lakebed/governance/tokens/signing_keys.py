"""The server's token signing keys, encrypted in the metadata store and rotated automatically.

One key signs on all servers. It is read for each token, so that all servers switch at once. A retired key loses its
private key at once, and verifies until the last token that it signed has expired. A revoked key is deleted, which
invalidates its tokens.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

from lakebed.core.access import Principal
from lakebed.core.clock import Clock
from lakebed.core.errors import Corrupted, NotFound
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Reader, Row, Transaction

from ..credentials.vault import MasterKeys, Vault
from ..events import append_token_key_event
from ..validated_cache import ValidatedCache
from .model import MAX_LIFETIME_SECONDS

ALGORITHM: Final = "ES256"
"""Small, fast signatures, supported by every client library."""

RETIRED_SECONDS: Final = MAX_LIFETIME_SECONDS + 300
"""How long a retired key verifies: the longest token lifetime, plus time for concurrent signing and clock
differences."""

_COLUMNS: Final = "id, algorithm, public, private, created_ms, expires_ms"
_SIGNING: Final = f"SELECT {_COLUMNS} FROM token_keys WHERE private IS NOT NULL"  # noqa: S608 - columns are ours
_ALL: Final = f"SELECT {_COLUMNS} FROM token_keys ORDER BY created_ms DESC, id"  # noqa: S608 - as above
_INSERT: Final = "INSERT INTO token_keys (id, algorithm, public, private, created_ms) VALUES (?, ?, ?, ?, ?)"
_RETIRE: Final = "UPDATE token_keys SET private = NULL, expires_ms = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM token_keys WHERE id = ?"
_DELETE_EXPIRED: Final = "DELETE FROM token_keys WHERE expires_ms <= ?"

_PURPOSE: Final = "token signing keys"


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A signing key, without the private key."""

    id: str
    algorithm: str
    public: bytes
    """SubjectPublicKeyInfo in DER."""
    signs: bool
    created_ms: int
    expires_ms: int | None
    """Until when it verifies; None for the active key."""

    def jwk(self) -> dict[str, str]:
        """The public key for verifiers: RFC 7517."""
        numbers = public_key(self.public).public_numbers()
        return {
            "kty": "EC",
            "crv": "P-256",
            "x": _encoded(numbers.x),
            "y": _encoded(numbers.y),
            "kid": self.id,
            "alg": self.algorithm,
            "use": "sig",
        }


@dataclass(frozen=True, slots=True)
class ActiveSigningKey:
    """The key that signs."""

    id: str
    private: ec.EllipticCurvePrivateKey


_IsDue: TypeAlias = Callable[[TokenKey], bool]


class TokenSigningKeys:
    """Finds, rotates and publishes signing keys."""

    def __init__(self, store: MetaStore, outbox: Outbox, master: MasterKeys, clock: Clock, root: Principal) -> None:
        self._store = store
        self._outbox = outbox
        self._vault = Vault(master, _PURPOSE)
        self._clock = clock
        self._root = root
        self._signers: ValidatedCache[Row, ActiveSigningKey] = ValidatedCache(4)

    async def signer(self) -> ActiveSigningKey:
        """The active key, by one read. Creates the first one."""
        row = await self._store.row(_SIGNING)
        if row is None:
            await self._replace(lambda _: False)
            row = await self._store.row(_SIGNING)
            if row is None:
                raise Corrupted("the token signing key was deleted after its creation")
        cached = self._signers.get(row[0], row)
        if cached is not None:
            return cached
        private = load_der_private_key(self._vault.open(row[3], row[0].encode()), password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise Corrupted(f"token signing key has another type. key={row[0]}")
        return self._signers.put(row[0], row, ActiveSigningKey(row[0], private))

    async def rotate(self) -> TokenKey:
        """Create a new active key and retire the current one."""
        return await self._replace(lambda _: True)

    async def rotate_older(self, seconds: float) -> bool:
        """Rotate if the active key is older than that. Returns whether it did. Does not create a first key."""
        before_ms = self._clock.now_ms() - round(seconds * 1000)
        row = await self._store.row(_SIGNING)
        if row is None or _key_from(row).created_ms > before_ms:
            return False
        made = await self._replace(lambda current: current.created_ms <= before_ms)
        return made.created_ms > before_ms

    async def revoke(self, key_id: str) -> None:
        """Delete a key and invalidate its tokens at once. An active key is replaced on demand. Raises NotFound."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            if not await tx.run(_DELETE, key_id):
                raise NotFound(f"no such key. key={key_id}")
            await self._append_event(tx, "TokenKeyRevoked", key_id, now_ms)

        await self._store.transact(work)

    async def keys(self) -> list[TokenKey]:
        """All keys that verify, newest first."""
        now_ms = self._clock.now_ms()
        found = [_key_from(row) for row in await self._store.rows(_ALL)]
        return [key for key in found if key.expires_ms is None or key.expires_ms > now_ms]

    async def delete_expired(self) -> int:
        """Delete expired keys. Returns their number."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> int:
            return await tx.run(_DELETE_EXPIRED, now_ms)

        return await self._store.transact(work)

    async def _replace(self, is_due: _IsDue) -> TokenKey:
        """Rotate if the transaction finds it due. Returns the active key."""
        private = ec.generate_private_key(ec.SECP256R1())
        now_ms = self._clock.now_ms()
        public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        fresh = TokenKey(secrets.token_hex(8), ALGORITHM, public, True, now_ms, None)
        plain = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        sealed = self._vault.seal(plain, fresh.id.encode())

        async def work(tx: Transaction) -> TokenKey:
            current = await _signing(tx)
            if current is not None and not is_due(current):
                return current
            if current is not None:
                await tx.run(_RETIRE, now_ms + RETIRED_SECONDS * 1000, current.id)
            await tx.run(_INSERT, fresh.id, fresh.algorithm, fresh.public, sealed, now_ms)
            if current is not None:
                await self._append_event(tx, "TokenKeyRetired", current.id, now_ms)
            await self._append_event(tx, "TokenKeyCreated", fresh.id, now_ms)
            return fresh

        return await self._store.transact(work)

    async def _append_event(self, tx: Transaction, name: str, key_id: str, now_ms: int) -> None:
        await append_token_key_event(self._outbox, tx, name, key_id, self._root, now_ms)


def public_key(der: bytes) -> ec.EllipticCurvePublicKey:
    """A stored public key. Raises Corrupted."""
    try:
        key = load_der_public_key(der)
    except ValueError as error:
        raise Corrupted("stored token key cannot be parsed") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Corrupted("stored token key has another type")
    return key


async def _signing(reader: Reader) -> TokenKey | None:
    row = await reader.row(_SIGNING)
    return None if row is None else _key_from(row)


def _key_from(row: Row) -> TokenKey:
    key_id, algorithm, public, private, created_ms, expires_ms = row
    return TokenKey(key_id, algorithm, public, private is not None, created_ms, expires_ms)


def _encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32)).rstrip(b"=").decode()
