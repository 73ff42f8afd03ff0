"""The keys that the server signs tokens with: made by itself, sealed in the metadata store, replaced in time.

One key signs, on all servers: it is looked up for each token, so that they change over together. A retired key loses
its private half at once, and verifies until the last token that it may have signed has expired. A revoked key is gone,
and with it all its tokens.
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
"""Small signatures, and fast to make; every client library has it."""

RETIRED_SECONDS: Final = MAX_LIFETIME_SECONDS + 300
"""How long a retired key verifies: the longest life of a token, on whichever server it was issued, and some more for
one that was being signed meanwhile, and for clocks that differ."""

_COLUMNS: Final = "id, algorithm, public, private, created_ms, expires_ms"
_SIGNING: Final = f"SELECT {_COLUMNS} FROM token_keys WHERE private IS NOT NULL"  # noqa: S608 - columns are ours
_ALL: Final = f"SELECT {_COLUMNS} FROM token_keys ORDER BY created_ms DESC, id"  # noqa: S608 - as above
_INSERT: Final = "INSERT INTO token_keys (id, algorithm, public, private, created_ms) VALUES (?, ?, ?, ?, ?)"
_RETIRE: Final = "UPDATE token_keys SET private = NULL, expires_ms = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM token_keys WHERE id = ?"
_FORGET: Final = "DELETE FROM token_keys WHERE expires_ms <= ?"

_PURPOSE: Final = "token signing keys"


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key, without its private half."""

    id: str
    algorithm: str
    public: bytes
    """SubjectPublicKeyInfo in DER."""
    signs: bool
    created_ms: int
    expires_ms: int | None
    """Until when it verifies; None for the one that signs."""

    def jwk(self) -> dict[str, str]:
        """The key as others need it to verify tokens: RFC 7517."""
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
    """The key that signs now."""

    id: str
    private: ec.EllipticCurvePrivateKey


_IsDue: TypeAlias = Callable[[TokenKey], bool]


class TokenSigningKeys:
    """Finding, replacing and publishing keys."""

    def __init__(self, store: MetaStore, outbox: Outbox, master: MasterKeys, clock: Clock, root: Principal) -> None:
        self._store = store
        self._outbox = outbox
        self._vault = Vault(master, _PURPOSE)
        self._clock = clock
        self._root = root
        self._signers: ValidatedCache[Row, ActiveSigningKey] = ValidatedCache(4)

    async def signer(self) -> ActiveSigningKey:
        """The key to sign with: one read; the first one ever is made now."""
        row = await self._store.row(_SIGNING)
        if row is None:
            await self._replace(lambda _: False)
            row = await self._store.row(_SIGNING)
            if row is None:
                raise Corrupted("the key that tokens are signed with went as it came")
        known = self._signers.get(row[0], row)
        if known is not None:
            return known
        private = load_der_private_key(self._vault.open(row[3], row[0].encode()), password=None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise Corrupted(f"a key that tokens are signed with is of another kind. key={row[0]}")
        return self._signers.put(row[0], row, ActiveSigningKey(row[0], private))

    async def rotate(self) -> TokenKey:
        """Sign with a fresh key from now on; the present one is retired."""
        return await self._replace(lambda _: True)

    async def rotate_older(self, seconds: float) -> bool:
        """The same if the present key is older than that; whether it was. What was never needed is not made."""
        before_ms = self._clock.now_ms() - round(seconds * 1000)
        row = await self._store.row(_SIGNING)
        if row is None or _key_from(row).created_ms > before_ms:
            return False
        made = await self._replace(lambda current: current.created_ms <= before_ms)
        return made.created_ms > before_ms

    async def revoke(self, key_id: str) -> None:
        """Forget a key: its tokens end at once, everywhere. If it signs, a fresh one does next. Raises NotFound."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> None:
            if not await tx.run(_DELETE, key_id):
                raise NotFound(f"no such key. key={key_id}")
            await self._tell(tx, "TokenKeyRevoked", key_id, now_ms)

        await self._store.transact(work)

    async def keys(self) -> list[TokenKey]:
        """Every key that verifies now, the newest first."""
        now_ms = self._clock.now_ms()
        found = [_key_from(row) for row in await self._store.rows(_ALL)]
        return [key for key in found if key.expires_ms is None or key.expires_ms > now_ms]

    async def forget_expired(self) -> int:
        """Remove keys that verify nothing any more; how many."""
        now_ms = self._clock.now_ms()

        async def work(tx: Transaction) -> int:
            return await tx.run(_FORGET, now_ms)

        return await self._store.transact(work)

    async def _replace(self, is_due: _IsDue) -> TokenKey:
        """A fresh key in place of the present one, if the transaction finds that due; the one that signs."""
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
                await self._tell(tx, "TokenKeyRetired", current.id, now_ms)
            await self._tell(tx, "TokenKeyCreated", fresh.id, now_ms)
            return fresh

        return await self._store.transact(work)

    async def _tell(self, tx: Transaction, name: str, key_id: str, now_ms: int) -> None:
        await append_token_key_event(self._outbox, tx, name, key_id, self._root, now_ms)


def public_key(der: bytes) -> ec.EllipticCurvePublicKey:
    """A stored public key. Raises Corrupted."""
    try:
        key = load_der_public_key(der)
    except ValueError as error:
        raise Corrupted("a stored key for tokens cannot be read") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Corrupted("a stored key for tokens is of another kind")
    return key


async def _signing(reader: Reader) -> TokenKey | None:
    row = await reader.row(_SIGNING)
    return None if row is None else _key_from(row)


def _key_from(row: Row) -> TokenKey:
    key_id, algorithm, public, private, created_ms, expires_ms = row
    return TokenKey(key_id, algorithm, public, private is not None, created_ms, expires_ms)


def _encoded(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32)).rstrip(b"=").decode()
