from __future__ import annotations

import pytest

from lakebed.core.access import Credential
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, CredentialsRevoked, InvalidScope, Unauthenticated
from lakebed.governance import Principals
from lakebed.governance.tokens import ClientAuthenticator, ClientCredentialStore, TokenIssuer, TokenVerifier
from lakebed.meta.seam import MetaStore

from .forging import parts
from .users import ADDRESS, token_for, with_credentials

HOUR = 3600.0


async def test_exchanged_token_has_the_same_principal(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
    clock: ManualClock,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b")
    clock.advance(HOUR / 2)
    fresh = await issuer.exchange(token, "catalog")
    assert (fresh.expires_in, fresh.scope) == (3600, "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b")
    assert (await verifier.principal(fresh.token)).user_id == user.user_id
    before, after = parts(token)[1], parts(fresh.token)[1]
    assert after["auth_time"] == before["auth_time"]
    assert (after["gen"], after["client_id"]) == (before["gen"], before["client_id"])
    assert after["jti"] != before["jti"]


async def test_exchange_cannot_add_roles(clients: ClientAuthenticator, issuer: TokenIssuer, root: Credential) -> None:
    client = await clients.authenticate("ROOTKEY", root.secret, ADDRESS)
    every = (await issuer.issue(client, None)).token
    some = (await issuer.exchange(every, "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:b")).token
    one = await issuer.exchange(some, "PRINCIPAL_ROLE:a")
    assert one.scope == "PRINCIPAL_ROLE:a"
    for wider in ("PRINCIPAL_ROLE:b", "PRINCIPAL_ROLE:ALL", "PRINCIPAL_ROLE:a PRINCIPAL_ROLE:c"):
        with pytest.raises(InvalidScope):
            await issuer.exchange(one.token, wider)
        with pytest.raises(InvalidScope):
            await issuer.exchange(one.token, wider, client)


async def test_exchange_without_the_secret_is_limited_in_time(
    clients: ClientAuthenticator, issuer: TokenIssuer, root: Credential, clock: ManualClock
) -> None:
    client = await clients.authenticate("ROOTKEY", root.secret, ADDRESS)
    token = (await issuer.issue(client, None)).token
    for _ in range(7 * 24 * 2 - 1):
        clock.advance(HOUR / 2)
        token = (await issuer.exchange(token, None)).token
    clock.advance(HOUR / 4)
    last = await issuer.exchange(token, None)
    assert last.expires_in == 900
    clock.advance(HOUR / 4)
    with pytest.raises(CredentialsExpired):
        await issuer.exchange(last.token, None)
    # With the secret the time starts again.
    assert (await issuer.exchange(last.token, None, client)).expires_in == 3600


async def test_expired_token_can_be_exchanged_only_with_the_secret(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    root: Credential,
    clock: ManualClock,
) -> None:
    _, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials, "PRINCIPAL_ROLE:a")
    clock.advance(2 * HOUR)
    with pytest.raises(CredentialsExpired):
        await issuer.exchange(token, None)
    client = await clients.authenticate(credentials.client_id, credentials.secret, ADDRESS)
    assert (await issuer.exchange(token, None, client)).scope == "PRINCIPAL_ROLE:a"
    foreign = await clients.authenticate("ROOTKEY", root.secret, ADDRESS)
    with pytest.raises(Unauthenticated):
        await issuer.exchange(token, None, foreign)


async def test_revoked_token_cannot_be_exchanged(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    token = await token_for(clients, issuer, credentials)
    await client_credentials.reset(user)
    with pytest.raises(CredentialsRevoked):
        await issuer.exchange(token, None)


async def test_exchanged_token_ends_with_the_original_secret(
    store: MetaStore,
    principals: Principals,
    client_credentials: ClientCredentialStore,
    clients: ClientAuthenticator,
    issuer: TokenIssuer,
    verifier: TokenVerifier,
) -> None:
    user, credentials = await with_credentials(store, principals, client_credentials)
    token = (await issuer.exchange(await token_for(clients, issuer, credentials), None)).token
    await client_credentials.rotate(user)
    token = (await issuer.exchange(token, None)).token
    await verifier.verify(token)
    await client_credentials.rotate(user)
    with pytest.raises(CredentialsRevoked):
        await verifier.verify(token)
