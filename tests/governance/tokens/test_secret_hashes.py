from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from lakebed.core.errors import Corrupted
from lakebed.core.secrets import Secret
from lakebed.governance.tokens import SecretHasher


async def test_a_secret_is_found_among_its_hashes(hashes: SecretHasher) -> None:
    first, second = await hashes.hash(Secret("first")), hashes.hash_now(Secret("second"))
    kept = [first.hash, second.hash]
    assert await hashes.find("c", Secret("first"), kept) == 0
    assert await hashes.find("c", Secret("second"), kept) == 1
    assert await hashes.find("c", Secret("third"), kept) is None
    assert await hashes.find("c", Secret("first"), []) is None


async def test_hashes_are_argon2id_and_salted(hashes: SecretHasher) -> None:
    made = [(await hashes.hash(Secret("same"))).hash for _ in range(2)]
    assert made[0] != made[1]
    assert all(text.startswith("$argon2id$") and "same" not in text for text in made)


async def test_what_was_found_right_is_remembered_while_the_hash_is_the_same(
    hashes: SecretHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, other = (await hashes.hash(Secret("s"))).hash, (await hashes.hash(Secret("t"))).hash
    assert await hashes.find("c", Secret("s"), [kept]) == 0
    tried: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, secret: str) -> bool:
        tried.append(stored)
        return verify(self, stored, secret)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    assert await hashes.find("c", Secret("s"), [kept]) == 0
    assert tried == []
    assert await hashes.find("c", Secret("s"), [other]) is None
    assert await hashes.find("d", Secret("s"), [kept]) == 0
    assert await hashes.find("c", Secret("S"), [kept]) is None
    assert tried == [other, kept, kept]


async def test_a_client_that_is_not_there_is_tried_as_one_that_is(
    hashes: SecretHasher, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, secret: str) -> bool:
        tried.append(stored)
        return verify(self, stored, secret)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    assert await hashes.find("nobody", Secret("s"), []) is None
    assert len(tried) == 1


async def test_a_damaged_hash_is_told_apart_from_a_wrong_secret(hashes: SecretHasher) -> None:
    with pytest.raises(Corrupted):
        await hashes.find("c", Secret("s"), ["not a hash"])
