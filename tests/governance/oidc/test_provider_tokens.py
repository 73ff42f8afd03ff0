from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lakebed.core.access import ActivatedRoles
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance import Principals
from lakebed.governance.credentials.bearer_tokens import BearerTokens
from lakebed.governance.oidc import (
    ClaimPath,
    ExternalIdentities,
    ProviderKeys,
    ProviderTokens,
    RoleMapping,
    TokenProvider,
)
from lakebed.governance.rbac import SERVICE
from lakebed.governance.rbac.caller_grants import CallerGrants
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction
from tests.governance.tokens.forging import hs256, parts, with_signature

from .fake_provider import AUDIENCE, ISSUER, FakeProvider

LIST_CATALOGS = 27


@pytest.fixture
def provider(clock: ManualClock) -> FakeProvider:
    return FakeProvider(clock)


class Tokens:
    """Creates verifiers of one provider's tokens, with settings."""

    def __init__(
        self, provider: FakeProvider, store: MetaStore, identities: ExternalIdentities, clock: ManualClock
    ) -> None:
        self._provider, self._store, self._identities, self._clock = provider, store, identities, clock

    def __call__(self, *, creates: bool = False, roles: RoleMapping | None = None) -> ProviderTokens:
        expected = TokenProvider(
            self._provider.issuer,
            frozenset({AUDIENCE}),
            ClaimPath.parse("preferred_username"),
            roles or RoleMapping.of(""),
            creates,
        )
        keys = ProviderKeys(self._provider.http, self._clock, self._provider.issuer)
        return ProviderTokens(expected, keys, self._identities, CallerGrants(self._store, federated=True), self._clock)


@pytest.fixture
def tokens(provider: FakeProvider, store: MetaStore, identities: ExternalIdentities, clock: ManualClock) -> Tokens:
    return Tokens(provider, store, identities, clock)


async def refused(tokens: ProviderTokens, token: Secret) -> None:
    for _ in range(2):
        with pytest.raises(Unauthenticated) as refusal:
            await tokens.principal(token)
        assert str(refusal.value) == "the token is not valid"


# -- users --------------------------------------------------------------------------------------------------------


async def test_subject_is_linked_to_the_user_of_its_first_token(
    provider: FakeProvider, principals: Principals, tokens: Tokens
) -> None:
    user = await principals.create_user("ada")
    known = tokens()
    assert (await known.principal(provider.token())).user_id == user.user_id
    # A renamed subject is the same user; a new subject with the old name is not.
    assert (await known.principal(provider.token(preferred_username="countess"))).user_id == user.user_id
    with pytest.raises(Unauthenticated, match="linked to another subject"):
        await known.principal(provider.token(sub="subject-2"))


async def test_unknown_user_is_refused_without_create_users(
    provider: FakeProvider, principals: Principals, tokens: Tokens
) -> None:
    with pytest.raises(Unauthenticated, match="no such user"):
        await tokens().principal(provider.token())
    assert await principals.users() == []


async def test_created_users_have_no_permissions(
    provider: FakeProvider, principals: Principals, tokens: Tokens, outbox: Outbox, store: MetaStore
) -> None:
    welcoming = tokens(creates=True)
    caller = await welcoming.principal(provider.token())
    assert (caller.name, caller.policies, caller.is_root) == ("ada", (), False)
    assert await welcoming.principal(provider.token()) == caller
    kinds = [entry.event.kind for entry in await outbox.read_after(store, 0, 100)]
    assert kinds == ["UserCreated", "ExternalIdentityLinked"]


@pytest.mark.parametrize("name", ["root", "Anonymous", "", "a b", "x" * 129, "a/b", 7, None, ["ada"]])
async def test_invalid_user_names_create_no_user(
    provider: FakeProvider, principals: Principals, tokens: Tokens, name: object
) -> None:
    with pytest.raises(Unauthenticated):
        await tokens(creates=True).principal(provider.token(preferred_username=name))
    assert await principals.users() == []


async def test_disabled_or_deleted_user_is_refused_at_once(
    provider: FakeProvider, principals: Principals, tokens: Tokens
) -> None:
    known, token = tokens(creates=True), provider.token()
    await known.principal(token)
    await principals.set_user_enabled("ada", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await known.principal(token)
    await principals.delete_user("ada")
    with pytest.raises(Unauthenticated):
        await tokens().principal(token)


# -- invalid tokens -----------------------------------------------------------------------------------------------


async def test_expiry_and_not_before_allow_for_clock_differences(
    provider: FakeProvider, principals: Principals, tokens: Tokens, clock: ManualClock
) -> None:
    await principals.create_user("ada")
    known, token = tokens(), provider.token()
    now = clock.now_ms() // 1000
    await known.principal(provider.token(nbf=now + 59, iat=now + 59))
    await refused(known, provider.token(nbf=now + 61))
    await refused(known, provider.token(iat=now + 61))
    clock.advance(659)
    await known.principal(token)
    clock.advance(1)
    with pytest.raises(CredentialsExpired):
        await known.principal(token)


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://id.example/realms/another"},
        {"iss": None},
        {"aud": "another"},
        {"aud": ["another"]},
        {"aud": []},
        {"aud": None},
        {"aud": {"lakebed": True}},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\x00b"},
        {"exp": None},
        {"exp": "4000000000"},
        {"exp": True},
        {"nbf": "now"},
    ],
)
async def test_tokens_with_wrong_claims_are_refused(
    provider: FakeProvider, principals: Principals, tokens: Tokens, change: dict[str, Any]
) -> None:
    await principals.create_user("ada")
    known = tokens()
    await known.principal(provider.token())
    await refused(known, provider.token(**change))


async def test_only_signatures_by_the_providers_keys_are_accepted(
    provider: FakeProvider, principals: Principals, tokens: Tokens
) -> None:
    await principals.create_user("ada")
    known, good = tokens(), provider.token()
    await known.principal(good)
    header, claims = parts(good)
    foreign = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = provider.private["one"].public_key()
    await refused(known, provider.token(key=foreign))
    await refused(known, provider.token(key=foreign, kid="another"))
    await refused(known, provider.token(algorithm="PS384", key=foreign))
    for algorithm in ("none", "None", ""):
        await refused(known, with_signature({**header, "alg": algorithm}, claims, b"x"))
    for spelled in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        await refused(known, hs256({**header, "alg": "HS256"}, claims, spelled))
        await refused(known, hs256(header, claims, spelled))


async def test_token_is_refused_after_its_signing_key_is_removed(
    provider: FakeProvider, principals: Principals, tokens: Tokens, clock: ManualClock
) -> None:
    await principals.create_user("ada")
    known, old = tokens(), provider.token(exp=4_000_000_000)
    await known.principal(old)
    provider.rotate()
    clock.advance(60)
    await known.principal(provider.token())
    await refused(known, old)


# -- roles --------------------------------------------------------------------------------------------------------


async def make_role(store: MetaStore, name: str, *, federated: bool, member: str | None = None) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO principal_roles (name, federated, version, created_ms, updated_ms) VALUES (?, ?, 1, 0, 0)",
            name,
            int(federated),
        )
        row = await tx.row("SELECT id FROM principal_roles WHERE name = ?", name)
        assert row is not None
        await tx.run("INSERT INTO service_grants (role, privilege) VALUES (?, ?)", row[0], LIST_CATALOGS)
        if member is not None:
            await tx.run("INSERT INTO principal_role_members (principal, role) VALUES (?, ?)", member, row[0])
        await tx.run("UPDATE role_changes SET number = number + 1")

    await store.transact(work)


async def may_list(tokens: ProviderTokens, token: Secret) -> bool:
    grants = (await tokens.principal(token)).grants
    return grants is not None and grants.covers(SERVICE, [LIST_CATALOGS])


async def test_only_federated_roles_are_activated_by_name_alone(
    provider: FakeProvider, principals: Principals, tokens: Tokens, store: MetaStore
) -> None:
    await principals.create_user("ada")
    mapped = tokens(roles=RoleMapping.of("groups", "lake-.*", {"^lake-": "PRINCIPAL_ROLE:"}))
    readers = provider.token(groups=["staff", "lake-readers"])
    assert not await may_list(mapped, readers)
    await make_role(store, "readers", federated=True)
    assert await may_list(mapped, readers)
    calling = (await mapped.principal(readers)).calling_roles
    assert calling is not None
    assert calling == ActivatedRoles(frozenset({"readers"}), by_provider=True)
    assert (await tokens().principal(readers)).calling_roles is None
    await make_role(store, "admins", federated=False)
    for groups in (["readers"], ["lake-admins"], ["lake-service_admin"], [], None, "staff"):
        assert not await may_list(mapped, provider.token(groups=groups)), groups


async def test_assigned_roles_are_activated_by_name_or_by_default(
    provider: FakeProvider, principals: Principals, tokens: Tokens, store: MetaStore
) -> None:
    await principals.create_user("ada")
    await make_role(store, "listers", federated=False, member="ada")
    mapped = tokens(roles=RoleMapping.of("groups", "", {"^": "PRINCIPAL_ROLE:"}))
    assert await may_list(mapped, provider.token(groups=["listers"]))
    assert not await may_list(mapped, provider.token(groups=["others"]))
    assert await may_list(tokens(), provider.token(groups=["others"]))


# -- several issuers ----------------------------------------------------------------------------------------------


async def test_token_is_verified_only_by_the_resolver_of_its_issuer(
    provider: FakeProvider, principals: Principals, tokens: Tokens
) -> None:
    await principals.create_user("ada")
    bearers = BearerTokens({ISSUER: tokens()})
    assert (await bearers.principal(provider.token())).name == "ada"
    for token in (
        provider.token(iss="lakebed"),
        provider.token(iss=None),
        provider.token(iss=7),
        Secret(""),
        Secret("abc"),
        Secret("a.b.c"),
        Secret("é.é.é"),
    ):
        with pytest.raises(Unauthenticated):
            await bearers.principal(token)
