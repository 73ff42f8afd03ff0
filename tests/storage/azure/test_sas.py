"""Fields and validity of shared access signatures."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from azure.storage.blob import UserDelegationKey
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.secrets import Secret
from lakebed.storage.azure.sas import CLOCK_SKEW, MAX_LIFETIME, SasScope, SasValidity, sas_validity, signed_sas

NOW_MS = 1_700_000_000_000
ACCOUNT_KEY = Secret(base64.b64encode(b"k" * 64).decode())


def delegation_key(validity: SasValidity, expiry: datetime | None = None) -> UserDelegationKey:
    key = UserDelegationKey()  # type: ignore[no-untyped-call]  # the library's
    key.signed_oid, key.signed_tid = "object-id", "tenant-id"
    key.signed_start = validity.start.strftime("%Y-%m-%dT%H:%M:%SZ")
    key.signed_expiry = (expiry or validity.expiry).strftime("%Y-%m-%dT%H:%M:%SZ")
    key.signed_service, key.signed_version = "b", "2026-02-06"
    key.value = ACCOUNT_KEY.reveal()
    return key


def fields(token: Secret) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(token.reveal(), strict_parsing=True).items()}


@pytest.mark.parametrize(("write", "permissions"), [(False, "rl"), (True, "racwdl")])
@pytest.mark.parametrize("delegated", [False, True])
def test_container_sas_has_the_permissions_of_its_scope(write: bool, permissions: str, delegated: bool) -> None:
    validity = sas_validity(NOW_MS, 3600)
    key = delegation_key(validity) if delegated else ACCOUNT_KEY
    vended = signed_sas(SasScope("lake", "t1/", hierarchical=False, write=write), "account", key, validity)
    found = fields(vended.token)
    assert (found["sr"], found["sp"], found["spr"]) == ("c", permissions, "https")
    assert found["se"] == "2023-11-14T23:13:20Z"
    assert vended.expires_ms == NOW_MS + 3_600_000
    assert ("skoid" in found) is delegated


@pytest.mark.parametrize(("prefix", "depth"), [("t1/", "1"), ("db/t1/", "2"), ("a/b/c d/", "3")])
@pytest.mark.parametrize("delegated", [False, True])
def test_hierarchical_scope_is_limited_to_its_directory(prefix: str, depth: str, delegated: bool) -> None:
    validity = sas_validity(NOW_MS, 3600)
    key = delegation_key(validity) if delegated else ACCOUNT_KEY
    scope = SasScope("lake", prefix, hierarchical=True, write=True)
    found = fields(signed_sas(scope, "account", key, validity).token)
    assert (found["sr"], found["sdd"], found["sp"]) == ("d", depth, "racwdl")
    neighbour = SasScope("lake", prefix[:-1] + "0/", hierarchical=True, write=True)
    assert fields(signed_sas(neighbour, "account", key, validity).token)["sig"] != found["sig"]


@pytest.mark.parametrize("prefix", ["", "t1", "a/../b/", "/"])
def test_hierarchical_scope_requires_a_directory(prefix: str) -> None:
    with pytest.raises(InvalidInput):
        SasScope("lake", prefix, hierarchical=True, write=False)


@given(now_ms=st.integers(10**12, 2 * 10**12), seconds=st.floats(min_value=0.001, max_value=10**9))
def test_validity_is_never_longer_than_seven_days_nor_than_requested(now_ms: int, seconds: float) -> None:
    validity = sas_validity(now_ms, seconds)
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    assert validity.expiry - validity.start <= MAX_LIFETIME
    assert validity.start == now - CLOCK_SKEW
    assert now < validity.expiry <= now + max(timedelta(seconds=seconds), timedelta(seconds=1))
    assert validity.expires_ms == round(validity.expiry.timestamp() * 1000)


def test_lifetime_must_be_positive() -> None:
    with pytest.raises(InvalidInput):
        sas_validity(NOW_MS, 0)


def test_delegation_key_must_not_expire_before_the_sas() -> None:
    validity = sas_validity(NOW_MS, 3600)
    short = delegation_key(validity, validity.expiry - timedelta(seconds=1))
    with pytest.raises(InvalidInput):
        signed_sas(SasScope("lake", "t1/", hierarchical=False, write=False), "account", short, validity)
