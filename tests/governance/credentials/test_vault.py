from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.core.errors import Corrupted, InvalidSetting
from lakebed.governance.credentials.vault import MasterKeys, Vault

FIRST = MasterKeys({"first": b"1" * 32}, active="first")
BOTH = MasterKeys({"first": b"1" * 32, "second": b"2" * 32}, active="second")


@settings(deadline=None)
@given(plain=st.binary(max_size=200), context=st.binary(max_size=20))
def test_sealed_bytes_open(plain: bytes, context: bytes) -> None:
    vault = Vault(FIRST, "test")
    assert vault.open(vault.seal(plain, context), context) == plain


def test_sealed_bytes_hide_the_plaintext_and_differ_each_time() -> None:
    vault = Vault(FIRST, "test")
    one, two = vault.seal(b"a secret text", b""), vault.seal(b"a secret text", b"")
    assert one != two
    assert b"secret" not in one


def test_another_context_does_not_open() -> None:
    vault = Vault(FIRST, "test")
    with pytest.raises(Corrupted, match="decryption failed"):
        vault.open(vault.seal(b"x", b"row 1"), b"row 2")


def test_another_purpose_does_not_open() -> None:
    with pytest.raises(Corrupted, match="decryption failed"):
        Vault(FIRST, "one").open(Vault(FIRST, "other").seal(b"x", b""), b"")


def test_another_master_key_of_the_same_id_does_not_open() -> None:
    foreign = MasterKeys({"first": b"9" * 32}, active="first")
    with pytest.raises(Corrupted, match="decryption failed"):
        Vault(foreign, "test").open(Vault(FIRST, "test").seal(b"x", b""), b"")


def test_fingerprints_differ_by_key_and_are_no_derived_keys() -> None:
    assert BOTH.fingerprint("first") == FIRST.fingerprint("first")
    assert BOTH.fingerprint("first") != BOTH.fingerprint("second")
    assert MasterKeys({"first": b"9" * 32}, "first").fingerprint("first") != FIRST.fingerprint("first")
    purposes = ("access key secrets", "session tokens", "session secrets", "object data keys")
    hidden = {b"1" * 32, *(FIRST.derive(purpose) for purpose in purposes)}
    assert FIRST.fingerprint("first") not in hidden


def test_old_key_decrypts_after_a_new_one_is_active() -> None:
    old = Vault(FIRST, "test").seal(b"x", b"")
    new = Vault(BOTH, "test").seal(b"y", b"")
    assert Vault(BOTH, "test").open(old, b"") == b"x"
    assert Vault(BOTH, "test").key_id(new) == "second"
    with pytest.raises(Corrupted, match=r"is missing.*key=second"):
        Vault(FIRST, "test").open(new, b"")


@settings(deadline=None)
@given(data=st.data())
def test_any_flipped_bit_is_detected(data: st.DataObject) -> None:
    vault = Vault(BOTH, "test")
    sealed = bytearray(vault.seal(b"plain text", b"context"))
    at = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[at // 8] ^= 1 << at % 8
    with pytest.raises(Corrupted):
        vault.open(bytes(sealed), b"context")


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_do_not_open(noise: bytes) -> None:
    with pytest.raises(Corrupted):
        Vault(FIRST, "test").open(noise, b"")


def test_purposes_and_keys_derive_different_keys() -> None:
    derived = {BOTH.derive("a"), BOTH.derive("b"), BOTH.derive("a", "first"), b"1" * 32, b"2" * 32}
    assert len(derived) == 5
    assert BOTH.derive("a") == BOTH.derive("a", "second")


def test_key_derivation_is_stable() -> None:
    # A changed derivation would make all stored secrets undecryptable.
    assert FIRST.derive("access key secrets").hex() == (
        "f1f4f361df5680f76df5ff258265287676e09e80214c7c6405f8f29d572e981d"
    )


def test_repr_hides_keys() -> None:
    assert "1111" not in repr(FIRST)
    assert "1111" not in repr(Vault(FIRST, "test"))


@pytest.mark.parametrize(
    ("keys", "active"), [({}, ""), ({"a": b"short"}, "a"), ({"a": b"1" * 32}, "b"), ({"": b"1" * 32}, "")]
)
def test_unusable_keys_are_refused(keys: dict[str, bytes], active: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^encryption\."):
        MasterKeys(keys, active)
