from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from lakebed.core.errors import Corrupted
from lakebed.core.secrets import Secret
from lakebed.governance.tokens import SecretHasher


async def test_matching_hash_is_found(hashes: SecretHasher) -> None:
    first, second = await hashes.hash(Secret("first")), hashes.hash_now(Secret("second"))
    stored_hash = [first.hash, second.hash]
    assert await hashes.find("c", Secret("first"), stored_hash) == 0
    assert await hashes.find("c", Secret("second"), stored_hash) == 1
    assert await hashes.find("c", Secret("third"), stored_hash) is None
    assert await hashes.find("c", Secret("first"), []) is None


async def test_hashes_are_argon2id_and_salted(hashes: SecretHasher) -> None:
    computed = [(await hashes.hash(Secret("same"))).hash for _ in range(2)]
    assert computed[0] != computed[1]
    assert all(text.startswith("$argon2id$") and "same" not in text for text in computed)


async def test_verified_secret_is_cached_while_the_hash_is_unchanged(
    hashes: SecretHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_hash, other = (await hashes.hash(Secret("s"))).hash, (await hashes.hash(Secret("t"))).hash
    assert await hashes.find("c", Secret("s"), [stored_hash]) == 0
    tried: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, secret: str) -> bool:
        tried.append(stored)
        return verify(self, stored, secret)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    assert await hashes.find("c", Secret("s"), [stored_hash]) == 0
    assert tried == []
    assert await hashes.find("c", Secret("s"), [other]) is None
    assert await hashes.find("d", Secret("s"), [stored_hash]) == 0
    assert await hashes.find("c", Secret("S"), [stored_hash]) is None
    assert tried == [other, stored_hash, stored_hash]


async def test_unknown_client_takes_one_hash_verification(
    hashes: SecretHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, secret: str) -> bool:
        tried.append(stored)
        return verify(self, stored, secret)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    assert await hashes.find("unknown", Secret("s"), []) is None
    assert len(tried) == 1


async def test_damaged_hash_is_corrupted(hashes: SecretHasher) -> None:
    with pytest.raises(Corrupted):
        await hashes.find("c", Secret("s"), ["not a hash"])
