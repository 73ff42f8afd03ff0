"""Argon2 hashes of client secrets.

Hashing runs in few threads, so that concurrent requests cannot use up all cores and memory. A verified secret is cached
as an HMAC with a key of this process, for as long as the stored hash is unchanged: regular clients are verified fast.
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
"""Hashes computed at the same time in one process."""

_PASSES: Final = 2
_MEMORY_KIB: Final = 19 * 1024
"""About 20 ms. Generated secrets have 128 bits and do not need it; chosen ones may be weaker."""


class SecretHasher:
    """Hashes and verifies secrets."""

    def __init__(
        self, threads: Executor | None = None, *, passes: int = _PASSES, memory_kib: int = _MEMORY_KIB
    ) -> None:
        self._threads = threads or ThreadPoolExecutor(MAX_CONCURRENT_HASHES, thread_name_prefix="secrets")
        self._hasher = PasswordHasher(time_cost=passes, memory_cost=memory_kib, parallelism=1, type=Type.ID)
        self._key = os.urandom(32)
        self._verified: ValidatedCache[str, bool] = ValidatedCache(4096)
        self._dummy_hash = ""

    def hash_now(self, secret: Secret) -> HashedSecret:
        """Hash a secret. Blocks."""
        return HashedSecret(secret, self._hasher.hash(secret.reveal()))

    async def hash(self, secret: Secret) -> HashedSecret:
        """Hash a secret in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.hash_now, secret)

    async def find(self, client_id: str, secret: Secret, hashes: Sequence[str]) -> int | None:
        """The index of the hash that matches the secret, or None. Takes as long without any hashes."""
        digest = hmac.new(self._key, f"{client_id}\0{secret.reveal()}".encode(), hashlib.sha256).hexdigest()
        for number, stored in enumerate(hashes):
            if self._verified.get(digest, stored):
                return number
        loop = asyncio.get_running_loop()
        if not hashes:
            await loop.run_in_executor(self._threads, self._verify_dummy, secret)
            return None
        found = await loop.run_in_executor(self._threads, self._verify, secret, hashes)
        if found is not None:
            self._verified.put(digest, hashes[found], True)
        return found

    def _verify(self, secret: Secret, hashes: Sequence[str]) -> int | None:
        for number, stored in enumerate(hashes):
            try:
                self._hasher.verify(stored, secret.reveal())
            except InvalidHashError as error:
                raise Corrupted("stored hash of a client secret is invalid") from error
            except Argon2Error:
                continue
            return number
        return None

    def _verify_dummy(self, secret: Secret) -> None:
        if not self._dummy_hash:
            self._dummy_hash = self._hasher.hash(secrets.token_hex(32))
        self._verify(secret, [self._dummy_hash])
