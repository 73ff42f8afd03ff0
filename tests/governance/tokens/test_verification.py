from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.core.access import ActivatedRoles, Credential
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, MasterKeys, Principals
from lakebed.governance.rbac import SERVICE, Privilege
from lakebed.governance.tokens import (
    ClientAuthenticator,
    ClientCredentialStore,
    NewClientCredentials,
    TokenIssuer,
    TokenSigningKeys,
    TokenVerifier,
)
from lakebed.governance.tokens.jws import read_unverified
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore, Transaction

from .conftest import ISSUER
from .forging import es256, hs256, parts, with_signature
from .users import ADDRESS, token_for, with_credentials


async def root_token(
    clients: ClientAuthenticator, issuer: TokenIssuer, root: Credential, scope: str | None = None
) -> Secret:
    return (await issuer.issue(await clients.authenticate("ROOTKEY", root.secret, ADDRESS), scope)).token


# -- valid tokens -------------------------------------------------------------------------------------------------


async def test_principal_is_the_current_user(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials)
    caller = await verifier.principal(token)
    assert (caller.name, caller.user_id, caller.arn, caller.policies) == ("bob", user.user_id, user.arn, ())
    assert await verifier.principal(token) is caller
    await principals.attach_canned("bob", "readonly")
    assert len((await verifier.principal(token)).policies) == 1


async def test_token_of_a_secret_to_rotate_is_marked(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    user = await principals.create_user("new")

    async def work(tx: Transaction) -> NewClientCredentials:
        return await client_credentials.create(tx, user, rotation_required=True)

    first = await store.transact(work)
    old = await token_for(clients, issuer, first)
    assert (await verifier.principal(old)).must_rotate
    second = await client_credentials.rotate(user)
    assert not (await verifier.principal(await token_for(clients, issuer, second))).must_rotate
    for still in (old, await token_for(clients, issuer, first)):
        assert (await verifier.principal(still)).must_rotate
    reset = await client_credentials.reset(user)
    assert not (await verifier.principal(await token_for(clients, issuer, reset))).must_rotate


async def test_root_can_use_tokens(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    caller = await verifier.principal(await root_token(clients, issuer, root))
    assert (caller.is_root, caller.key) == (True, root.principal.key)


async def test_principal_has_the_activated_roles_of_the_token(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    _, credentials = await with_credentials(store, principals, client_credentials)
    some = await verifier.principal(await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b"))
    assert some.calling_roles == ActivatedRoles(frozenset({"a", "b"}))
    assert (await verifier.principal(await token_for(clients, issuer, credentials))).calling_roles is None


async def test_claims_of_a_token(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    clock: ManualClock,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:reader")
    header, claims = parts(token)
    now = clock.now_ms() // 1000
    assert header.keys() == {"alg", "kid", "typ"}
    assert (header["alg"], header["typ"]) == ("ES256", "at+jwt")
    assert (claims["iss"], claims["aud"], claims["sub"]) == (ISSUER, ISSUER, user.user_id)
    assert (claims["iat"], claims["nbf"], claims["exp"]) == (now, now, now + 3600)
    assert (claims["client_id"], claims["scope"]) == (credentials.client_id, "PRINCIPAL_ROLE:reader")
    assert claims["jti"] != parts(await token_for(clients, issuer, credentials))[1]["jti"]
    assert credentials.secret.reveal() not in str(claims)


# -- ends of tokens -----------------------------------------------------------------------------------------------


async def test_token_expires_exactly(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential, clock: ManualClock
) -> None:
    token = await root_token(clients, issuer, root)
    clock.advance(3599.999)
    await verifier.verify(token)
    clock.advance(0.001)
    with pytest.raises(CredentialsExpired):
        await verifier.verify(token)


async def test_disabling_or_deleting_the_user_ends_its_tokens(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    _, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials)
    await verifier.verify(token)
    await principals.set_user_enabled("bob", enabled=False)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(token)
    await principals.set_user_enabled("bob", enabled=True)
    await verifier.verify(token)
    await principals.delete_user("bob")
    with pytest.raises(Unauthenticated):
        await verifier.verify(token)
    # A recreated user of the same name is another user.
    await with_credentials(store, principals, client_credentials)
    with pytest.raises(Unauthenticated):
        await verifier.verify(token)


async def test_second_rotation_or_a_reset_ends_tokens(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    of_first = await token_for(clients, issuer, first)
    second = await client_credentials.rotate(user)
    of_second = await token_for(clients, issuer, second)
    await verifier.verify(of_first)
    await client_credentials.rotate(user)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(of_first)
    await verifier.verify(of_second)
    await client_credentials.reset(user)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(of_second)


async def test_tokens_of_the_previous_secret_end_with_it(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    user, first = await with_credentials(store, principals, client_credentials)
    await client_credentials.rotate(user)
    token = await token_for(clients, issuer, first)
    await verifier.verify(token)
    await client_credentials.rotate(user)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(token)


async def test_tokens_follow_their_access_key(
    principals: Principals,
    access_keys: AccessKeys,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    await principals.create_user("bob")
    credentials = await access_keys.create("bob")

    async def token(secret: Secret) -> Secret:
        return (await issuer.issue(await clients.authenticate(credentials.key.id, secret, ADDRESS), None)).token

    first = await token(credentials.secret)
    assert (await verifier.principal(first)).key == (await access_keys.lookup(credentials.key.id)).principal.key
    await access_keys.set_enabled(credentials.key.id, enabled=False)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(first)
    await access_keys.set_enabled(credentials.key.id, enabled=True)
    await verifier.verify(first)
    rotated = await access_keys.rotate(credentials.key.id)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(first)
    second = await token(rotated.secret)
    await verifier.verify(second)
    await access_keys.delete(credentials.key.id)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(second)


async def test_changing_roots_secret_ends_its_tokens(
    store: MetaStore,
    outbox: Outbox,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    master_keys: MasterKeys,
    clock: ManualClock,
    root: Credential,
) -> None:
    token = await root_token(clients, issuer, root)
    changed = Credential("ROOTKEY", Secret("another secret"), root.principal)
    keys = AccessKeys(store, outbox, master_keys, clock, changed)
    with pytest.raises(CredentialsRevoked):
        await TokenVerifier(store, keys, master_keys, clock, issuer=ISSUER).verify(token)


async def test_tokens_of_access_keys_remain_valid_after_a_master_key_change(
    store: MetaStore,
    access_keys: AccessKeys,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    clock: ManualClock,
    root: Credential,
) -> None:
    token = await root_token(clients, issuer, root)
    both = MasterKeys({"first": b"1" * 32, "second": b"2" * 32}, active="second")
    await TokenVerifier(store, access_keys, both, clock, issuer=ISSUER).verify(token)
    other = MasterKeys({"second": b"2" * 32}, active="second")
    with pytest.raises(CredentialsRevoked):
        await TokenVerifier(store, access_keys, other, clock, issuer=ISSUER).verify(token)


# -- forged and malformed tokens ----------------------------------------------------------------------------------


async def refused(verifier: TokenVerifier, token: Secret) -> None:
    for _ in range(2):
        with pytest.raises(Unauthenticated) as refusal:
            await verifier.verify(token)
        assert str(refusal.value) == "the token is not valid"


async def test_unsigned_token_is_refused(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    token = await root_token(clients, issuer, root)
    header, claims = parts(token)
    signature = token.reveal().rpartition(".")[2]
    for algorithm in ("none", "None", "NONE", "nOnE", ""):
        forged = {**header, "alg": algorithm}
        await refused(verifier, with_signature(forged, claims, b""))
        await refused(verifier, Secret(with_signature(forged, claims, b"x").reveal().rpartition(".")[0] + "."))
        await refused(verifier, Secret(f"{with_signature(forged, claims, b'').reveal()}{signature}"))
    await refused(verifier, Secret(token.reveal().rpartition(".")[0]))
    await refused(verifier, Secret(token.reveal().rpartition(".")[0] + "."))


async def test_mac_with_the_public_key_is_refused(
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    signing_keys: TokenSigningKeys,
    root: Credential,
) -> None:
    token = await root_token(clients, issuer, root)
    header, claims = parts(token)
    (key,) = await signing_keys.keys()
    public = (await signing_keys.signer()).private.public_key()
    spellings = [
        key.public,
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint),
        b"",
    ]
    for algorithm in ("HS256", "hs256"):
        for spelled in spellings:
            await refused(verifier, hs256({**header, "alg": algorithm}, claims, spelled))
    # Nor with the key's own algorithm.
    for spelled in spellings:
        await refused(verifier, hs256(header, claims, spelled))


async def test_tokens_signed_by_foreign_keys_are_refused(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    header, claims = parts(await root_token(clients, issuer, root))
    foreign = ec.generate_private_key(ec.SECP256R1())
    numbers = foreign.public_key().public_numbers()
    own_key = {"kty": "EC", "crv": "P-256", "x": str(numbers.x), "y": str(numbers.y)}
    for forged in (
        header,
        {**header, "kid": "another"},
        {**header, "kid": ""},
        {**header, "kid": "' OR 1=1 --"},
        {**header, "kid": "../../dev/null"},
        {**header, "kid": "\x00"},
        {**header, "jwk": own_key},
        {**header, "jku": "http://127.0.0.1:1/keys"},
        {**header, "x5u": "http://127.0.0.1:1/keys"},
        {name: value for name, value in header.items() if name != "kid"},
    ):
        await refused(verifier, es256(forged, claims, foreign))


async def test_changed_claims_are_refused(
    clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    token = await root_token(clients, issuer, root, "PRINCIPAL_ROLE:reader")
    header, claims = parts(token)
    signature = token.reveal().rpartition(".")[2]
    for change in ({"scope": "PRINCIPAL_ROLE:ALL"}, {"exp": claims["exp"] + 1}, {"sub": "another"}):
        changed = with_signature(header, {**claims, **change}, b"x").reveal().rpartition(".")[0]
        await refused(verifier, Secret(f"{changed}.{signature}"))


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "another"},
        {"aud": "another"},
        {"aud": [ISSUER]},
        {"aud": None},
        {"nbf": 4_000_000_000},
        {"exp": "4000000000"},
        {"exp": None},
        {"sub": 7},
        {"sub": "a\x00b"},
        {"client_id": "a\x00b"},
    ],
)
async def test_validly_signed_foreign_claims_are_refused(
    change: dict[str, object],
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    signing_keys: TokenSigningKeys,
    root: Credential,
) -> None:
    header, claims = parts(await root_token(clients, issuer, root))
    signer = await signing_keys.signer()
    assert (await verifier.principal(es256(header, claims, signer.private))).is_root
    await refused(verifier, es256(header, {**claims, **change}, signer.private))
    for missing in claims:
        await refused(
            verifier, es256(header, {name: claims[name] for name in claims if name != missing}, signer.private)
        )


@pytest.mark.parametrize(
    "change",
    [{"typ": "JWT"}, {"typ": ""}, {"crit": ["b64"]}, {"crit": ["exp"], "exp": 1}, {"b64": False}, {"alg": "ES384"}],
)
async def test_validly_signed_foreign_headers_are_refused(
    change: dict[str, object],
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    signing_keys: TokenSigningKeys,
    root: Credential,
) -> None:
    header, claims = parts(await root_token(clients, issuer, root))
    await refused(verifier, es256({**header, **change}, claims, (await signing_keys.signer()).private))


async def test_token_of_another_installation_is_refused(
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    signing_keys: TokenSigningKeys,
    store: MetaStore,
    access_keys: AccessKeys,
    master_keys: MasterKeys,
    clock: ManualClock,
    root: Credential,
) -> None:
    token = await root_token(clients, issuer, root)
    await refused(TokenVerifier(store, access_keys, master_keys, clock, issuer="another"), token)


async def test_damaged_signing_key_row_is_corrupted(
    store: MetaStore, clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    token = await root_token(clients, issuer, root)
    await verifier.verify(token)
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    der = other.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    async def work(tx: Transaction) -> None:
        await tx.run("UPDATE token_keys SET public = ?", der)

    await store.transact(work)
    await refused(verifier, token)


@given(st.text(max_size=300))
def test_random_text_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        read_unverified(text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(position=st.integers(0, 10_000), character=st.characters(codec="ascii"))
async def test_any_changed_character_is_refused(
    position: int,
    character: str,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    root: Credential,
) -> None:
    text = (await root_token(clients, issuer, root)).reveal()
    position %= len(text)
    # The last base64 character of 64 bytes has two unused bits.
    if character != text[position] and position != len(text) - 1:
        with pytest.raises(Unauthenticated):
            await verifier.verify(Secret(text[:position] + character + text[position + 1 :]))


# -- scopes -------------------------------------------------------------------------------------------------------

MANAGE_ACCESS = 1
LIST_CATALOGS = 27


async def give_role(store: MetaStore, principal: str, role: str, privilege: int) -> None:
    """Create a principal role with a privilege on the service, assigned to the principal."""

    async def work(tx: Transaction) -> None:
        await tx.run(
            "INSERT INTO principal_roles (name, federated, version, created_ms, updated_ms) VALUES (?, 0, 1, 0, 0)",
            role,
        )
        row = await tx.row("SELECT id FROM principal_roles WHERE name = ?", role)
        assert row is not None
        await tx.run("INSERT INTO service_grants (role, privilege) VALUES (?, ?)", row[0], privilege)
        await tx.run("INSERT INTO principal_role_members (principal, role) VALUES (?, ?)", principal, row[0])
        await tx.run("UPDATE role_changes SET number = number + 1")

    await store.transact(work)


async def take_role(store: MetaStore, role: str) -> None:
    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM principal_roles WHERE name = ?", role)
        await tx.run("UPDATE role_changes SET number = number + 1")

    await store.transact(work)


async def granted(verifier: TokenVerifier, token: Secret) -> set[int]:
    grants = (await verifier.principal(token)).grants
    privileges = (MANAGE_ACCESS, LIST_CATALOGS)
    return {number for number in privileges if grants is not None and grants.covers(SERVICE, [number])}


async def test_token_activates_the_current_grants_of_its_roles(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    _, credentials = await with_credentials(store, principals, client_credentials)
    every = await token_for(clients, issuer, credentials)
    admin = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:admin")
    lister = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:lister")
    assert [await granted(verifier, token) for token in (every, admin, lister)] == [set(), set(), set()]
    await give_role(store, "bob", "lister", LIST_CATALOGS)
    await give_role(store, "bob", "admin", MANAGE_ACCESS)
    assert await granted(verifier, lister) == {LIST_CATALOGS}
    assert await granted(verifier, admin) >= {MANAGE_ACCESS}
    assert await granted(verifier, every) == {MANAGE_ACCESS, LIST_CATALOGS}
    # A revoked grant is lost at the next request, with the same token.
    await take_role(store, "admin")
    assert await granted(verifier, admin) == set()
    assert await granted(verifier, every) == await granted(verifier, lister) == {LIST_CATALOGS}


async def test_unassigned_role_is_not_activated_by_name(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    _, credentials = await with_credentials(store, principals, client_credentials)
    await with_credentials(store, principals, client_credentials, "eve")
    await give_role(store, "bob", "lister", LIST_CATALOGS)
    await give_role(store, "eve", "admin", MANAGE_ACCESS)
    token = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:admin PRINCIPAL_ROLE:service_admin")
    assert await granted(verifier, token) == set()


async def test_scope_applies_to_tokens_of_access_keys(
    store: MetaStore,
    principals: Principals,
    access_keys: AccessKeys,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    await principals.create_user("bob")
    credentials = await access_keys.create("bob")
    await give_role(store, "bob", "lister", LIST_CATALOGS)
    client = await clients.authenticate(credentials.key.id, credentials.secret, ADDRESS)
    assert await granted(verifier, (await issuer.issue(client, None)).token) == {LIST_CATALOGS}
    assert await granted(verifier, (await issuer.issue(client, "PRINCIPAL_ROLE:other")).token) == set()


# -- scopes of root -----------------------------------------------------------------------------------------------


async def test_root_with_named_roles_has_only_their_grants(
    store: MetaStore, clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    admin = await verifier.principal(await root_token(clients, issuer, root, "PRINCIPAL_ROLE:service_admin"))
    assert (admin.is_root, admin.name) == (False, "root")
    assert admin.grants is not None
    assert admin.grants.covers(SERVICE, (Privilege.PRINCIPAL_CREATE,))
    other = await verifier.principal(await root_token(clients, issuer, root, "PRINCIPAL_ROLE:ghost"))
    assert not other.is_root
    assert other.grants is not None
    assert not other.grants.covers(SERVICE, (Privilege.PRINCIPAL_LIST,))
    for scope in (None, "catalog", "PRINCIPAL_ROLE:ALL"):
        assert (await verifier.principal(await root_token(clients, issuer, root, scope))).is_root


async def test_role_revoked_from_root_is_lost_by_its_tokens(
    store: MetaStore, clients: ClientAuthenticator, issuer: TokenIssuer, verifier: TokenVerifier, root: Credential
) -> None:
    token = await root_token(clients, issuer, root, "PRINCIPAL_ROLE:service_admin")
    before = (await verifier.principal(token)).grants
    assert before is not None
    assert before.covers(SERVICE, (Privilege.PRINCIPAL_LIST,))

    async def work(tx: Transaction) -> None:
        await tx.run("DELETE FROM principal_role_members WHERE principal = 'root'")
        await tx.run("UPDATE role_changes SET number = number + 1")

    await store.transact(work)
    after = (await verifier.principal(token)).grants
    assert after is not None
    assert not after.covers(SERVICE, (Privilege.PRINCIPAL_LIST,))
