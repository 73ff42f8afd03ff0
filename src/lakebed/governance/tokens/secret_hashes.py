"""Secrets of clients as they are kept: Argon2 hashes, which nobody turns back and which take time to try.

The time is spent in threads of its own, few enough that many requests at once take neither all cores nor much memory.
A secret that was found right is remembered, by a hash with a key that this process alone knows, for as long as the
stored hash is the same: a client that comes every hour with the same secret costs nothing much.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from argon2 import PasswordHasher, Type
from argon2.exceptions import Argon2Error, InvalidHashError

from lakebed.core.errors import Corrupted
from lakebed.core.secrets import Secret

from ..validated_cache import ValidatedCache
from .model import HashedSecret

MAX_CONCURRENT_HASHES: Final = 2
"""Hashes that are computed at a time in one process."""

_PASSES: Final = 2
_MEMORY_KIB: Final = 19 * 1024
"""About 20 ms. Generated secrets have 128 bits and need none of it; chosen ones may be worse."""


class SecretHasher:
    """Makes hashes of secrets and tries secrets against them."""

    def __init__(
        self, threads: Executor | None = None, *, passes: int = _PASSES, memory_kib: int = _MEMORY_KIB
    ) -> None:
        self._threads = threads or ThreadPoolExecutor(MAX_CONCURRENT_HASHES, thread_name_prefix="secrets")
        self._hasher = PasswordHasher(time_cost=passes, memory_cost=memory_kib, parallelism=1, type=Type.ID)
        self._key = os.urandom(32)
        self._right: ValidatedCache[str, bool] = ValidatedCache(4096)
        self._nobodys = ""

    def hash_now(self, secret: Secret) -> HashedSecret:
        """The hash of a secret, computed here and now. Blocks for its time."""
        return HashedSecret(secret, self._hasher.hash(secret.reveal()))

    async def hash(self, secret: Secret) -> HashedSecret:
        """The same in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.hash_now, secret)

    async def find(self, client_id: str, secret: Secret, hashes: Sequence[str]) -> int | None:
        """Which of the client's hashes the secret is of, or None. Takes as long for a client that has none."""
        digest = hmac.new(self._key, f"{client_id}\0{secret.reveal()}".encode(), hashlib.sha256).hexdigest()
        for number, stored in enumerate(hashes):
            if self._right.get(digest, stored):
                return number
        loop = asyncio.get_running_loop()
        if not hashes:
            await loop.run_in_executor(self._threads, self._try_nobodys, secret)
            return None
        found = await loop.run_in_executor(self._threads, self._try, secret, hashes)
        if found is not None:
            self._right.put(digest, hashes[found], True)
        return found

    def _try(self, secret: Secret, hashes: Sequence[str]) -> int | None:
        for number, stored in enumerate(hashes):
            try:
                self._hasher.verify(stored, secret.reveal())
            except InvalidHashError as error:
                raise Corrupted("the hash of a client's secret is not one") from error
            except Argon2Error:
                continue
            return number
        return None

    def _try_nobodys(self, secret: Secret) -> None:
        if not self._nobodys:
            self._nobodys = self._hasher.hash(secrets.token_hex(32))
        self._try(secret, [self._nobodys])
