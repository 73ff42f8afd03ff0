from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.governance.oidc import ProviderKeys
from lakebed.net.http import HttpRequest, HttpResponse

from .fake_provider import ISSUER, FakeProvider, public_jwk

HOUR = 3600.0


@pytest.fixture
def provider(clock: ManualClock) -> FakeProvider:
    return FakeProvider(clock)


@pytest.fixture
def keys(provider: FakeProvider, clock: ManualClock) -> ProviderKeys:
    return ProviderKeys(provider.http, clock, ISSUER)


async def test_keys_are_found_by_discovery_and_cached(provider: FakeProvider, keys: ProviderKeys) -> None:
    found = [await keys.find("one", "RS256") for _ in range(10)]
    assert found[0] is not None
    assert all(key is found[0] for key in found)
    assert provider.requested == [f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys"]


async def test_concurrent_lookups_share_one_fetch(provider: FakeProvider, keys: ProviderKeys) -> None:
    found = await asyncio.gather(*(keys.find("one", "RS256") for _ in range(20)))
    assert all(key is not None for key in found)
    assert len(provider.requested) == 2


async def test_unknown_key_id_triggers_a_rate_limited_refresh(
    provider: FakeProvider, keys: ProviderKeys, clock: ManualClock
) -> None:
    await keys.find("one", "RS256")
    # Immediately, although the keys were just fetched.
    provider.rotate()
    assert await keys.find("two", "RS256") is not None
    assert await keys.find("one", "RS256") is None
    requested = len(provider.requested)
    for number in range(50):
        assert await keys.find(f"unknown-{number}", "RS256") is None
    assert len(provider.requested) == requested
    clock.advance(30)
    assert await keys.find("unknown", "RS256") is None
    assert len(provider.requested) == requested + 2


async def test_keys_are_refreshed_and_removed_keys_are_refused(
    provider: FakeProvider, keys: ProviderKeys, clock: ManualClock
) -> None:
    await keys.find("one", "RS256")
    provider.rotate()
    clock.advance(HOUR)
    assert await keys.find("one", "RS256") is not None
    clock.advance(1)
    assert await keys.find("one", "RS256") is None


async def test_cached_keys_are_used_for_a_day_while_the_provider_is_down(
    provider: FakeProvider, keys: ProviderKeys, clock: ManualClock
) -> None:
    await keys.find("one", "RS256")
    provider.is_down = True
    for _ in range(24):
        clock.advance(HOUR)
        assert await keys.find("one", "RS256") is not None
    clock.advance(1)
    with pytest.raises(Unavailable):
        await keys.find("one", "RS256")
    provider.is_down = False
    with pytest.raises(Unavailable):
        await keys.find("one", "RS256")
    clock.advance(30)
    assert await keys.find("one", "RS256") is not None


async def test_failed_discovery_is_not_repeated_for_every_token(
    provider: FakeProvider, keys: ProviderKeys, clock: ManualClock
) -> None:
    provider.is_down = True
    for _ in range(10):
        with pytest.raises(Unavailable):
            await keys.find("one", "RS256")
    assert len(provider.requested) == 2, "one refresh with two attempts"
    provider.is_down = False
    clock.advance(30)
    assert await keys.find("one", "RS256") is not None


async def test_configuration_of_another_issuer_is_refused(provider: FakeProvider, keys: ProviderKeys) -> None:
    provider.named = "https://id.example/realms/another"
    with pytest.raises(Unavailable):
        await keys.find("one", "RS256")


@pytest.mark.parametrize("uri", ["http://id.example/keys", "file:///etc/keys", "ftp://id.example/keys", "keys"])
async def test_plain_http_jwks_uri_is_refused(provider: FakeProvider, keys: ProviderKeys, uri: str) -> None:
    provider.jwks_uri = uri
    with pytest.raises(Unavailable):
        await keys.find("one", "RS256")
    assert uri not in provider.requested


async def test_key_is_used_only_for_its_algorithm_and_purpose(
    provider: FakeProvider, keys: ProviderKeys, clock: ManualClock
) -> None:
    curve, big = ec.generate_private_key(ec.SECP256R1()), provider.private["one"]
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    provider.published = [
        public_jwk(curve, "curve"),
        public_jwk(big, "plain"),
        {**public_jwk(big, "for-encryption"), "use": "enc"},
        {**public_jwk(big, "for-ps"), "alg": "PS256"},
        {**public_jwk(big, "signs-only"), "key_ops": ["sign"]},
        {"kty": "oct", "kid": "shared", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "use": "sig"},
        public_jwk(weak, "weak"),
        {"kty": "RSA", "kid": "broken", "n": "!", "e": 7},
        {"kid": "of no type"},
        public_jwk(big, "twice"),
        public_jwk(curve, "twice"),
        public_jwk(big, "thrice"),
        public_jwk(big, "thrice"),
    ]
    assert await keys.find("curve", "ES256") is not None
    for algorithm in ("RS256", "PS512"):
        assert await keys.find("plain", algorithm) is not None
    assert await keys.find("for-ps", "PS256") is not None
    assert await keys.find("twice", "RS256") is not None
    for kid, algorithm in (
        ("curve", "ES384"),
        ("curve", "RS256"),
        ("plain", "ES256"),
        ("for-encryption", "RS256"),
        ("for-ps", "RS256"),
        ("signs-only", "RS256"),
        ("shared", "RS256"),
        ("weak", "RS256"),
        ("broken", "RS256"),
        ("of no type", "RS256"),
        ("thrice", "RS256"),
    ):
        assert await keys.find(kid, algorithm) is None, (kid, algorithm)


async def test_token_without_a_key_id_uses_the_only_key(provider: FakeProvider, keys: ProviderKeys) -> None:
    assert await keys.find("", "RS256") is not None
    assert await keys.find("", "ES256") is None


async def test_token_without_a_key_id_is_refused_with_several_keys(provider: FakeProvider, keys: ProviderKeys) -> None:
    provider.published = [public_jwk(provider.private["one"], kid) for kid in ("a", "b")]
    assert await keys.find("", "RS256") is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"keys": 7}', b"\xff", b"[" * 100_000])
async def test_invalid_response_is_unavailable(clock: ManualClock, provider: FakeProvider, body: bytes) -> None:
    async def http(request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, body)

    with pytest.raises(Unavailable):
        await ProviderKeys(http, clock, ISSUER).find("one", "RS256")
