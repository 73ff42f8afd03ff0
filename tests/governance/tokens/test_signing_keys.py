from __future__ import annotations

import asyncio

import jwt
import pytest

from lakebed.core.access import Credential
from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, NotFound, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, MasterKeys
from lakebed.governance.tokens import ClientAuthenticator, TokenIssuer, TokenSigningKeys, TokenVerifier
from lakebed.governance.tokens.signing_keys import RETIRED_SECONDS
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore

from .conftest import ISSUER
from .forging import parts
from .users import ADDRESS

DAY = 86_400.0


class Server:
    """A server's token components on a shared store."""

    def __init__(self, store: MetaStore, clock: ManualClock, root: Credential, clients: ClientAuthenticator) -> None:
        master, outbox = MasterKeys({"first": b"1" * 32}, active="first"), Outbox(store)
        self.keys = TokenSigningKeys(store, outbox, master, clock, root.principal)
        access_keys = AccessKeys(store, outbox, master, clock, root)
        self.verifier = TokenVerifier(store, access_keys, master, clock, issuer=ISSUER)
        self.issuer = TokenIssuer(
            self.keys, self.verifier, clock, issuer=ISSUER, lifetime_seconds=86_400, renewal_seconds=86_400
        )
        self._clients, self._root = clients, root

    async def token(self) -> Secret:
        client = await self._clients.authenticate("ROOTKEY", self._root.secret, ADDRESS)
        return (await self.issuer.issue(client, None)).token

    async def accepts(self, token: Secret) -> bool:
        try:
            await self.verifier.verify(token)
        except Unauthenticated:
            return False
        return True


@pytest.fixture
def servers(
    store: MetaStore, clock: ManualClock, root: Credential, clients: ClientAuthenticator
) -> tuple[Server, Server]:
    return Server(store, clock, root, clients), Server(store, clock, root, clients)


async def test_concurrent_first_tokens_create_one_key(servers: tuple[Server, Server]) -> None:
    tokens = await asyncio.gather(*(server.token() for server in servers for _ in range(4)))
    assert len({parts(token)[0]["kid"] for token in tokens}) == 1
    assert len(await servers[0].keys.keys()) == 1


async def test_no_key_is_created_before_the_first_token(signing_keys: TokenSigningKeys) -> None:
    assert not await signing_keys.rotate_older(0)
    assert await signing_keys.keys() == []


async def test_rotation_applies_to_all_servers_and_keeps_old_tokens(
    servers: tuple[Server, Server], clock: ManualClock
) -> None:
    one, other = servers
    before = [await one.token(), await other.token()]
    fresh = await one.keys.rotate()
    after = [await one.token(), await other.token()]
    assert {parts(token)[0]["kid"] for token in after} == {fresh.id}
    assert fresh.id not in {parts(token)[0]["kid"] for token in before}
    for server in servers:
        assert [await server.accepts(token) for token in before + after] == [True] * 4
    clock.advance(DAY - 1)
    for server in servers:
        assert [await server.accepts(token) for token in before] == [True] * 2


async def test_retired_key_verifies_until_its_last_token_expires(
    servers: tuple[Server, Server], store: MetaStore, clock: ManualClock
) -> None:
    one, other = servers
    await one.token()
    old = (await one.keys.keys())[0]
    await one.keys.rotate()
    assert await store.rows("SELECT private FROM token_keys WHERE id = ?", old.id) == [(None,)]
    clock.advance(RETIRED_SECONDS - 1)
    assert old.id in {key.id for key in await other.keys.keys()}
    assert await other.keys.delete_expired() == 0
    clock.advance(1)
    assert old.id not in {key.id for key in await other.keys.keys()}
    assert await other.keys.delete_expired() == 1


async def test_token_expires_with_its_retired_key(servers: tuple[Server, Server], clock: ManualClock) -> None:
    one, _ = servers
    token = await one.token()
    await one.keys.rotate()
    clock.advance(RETIRED_SECONDS)
    with pytest.raises(CredentialsExpired):
        await one.verifier.signed_claims(token)


async def test_old_key_is_rotated_by_one_server(servers: tuple[Server, Server], clock: ManualClock) -> None:
    one, other = servers
    await one.token()
    assert not await one.keys.rotate_older(DAY)
    clock.advance(DAY)
    turned = await asyncio.gather(one.keys.rotate_older(DAY), other.keys.rotate_older(DAY))
    assert any(turned)
    assert len(await one.keys.keys()) == 2


async def test_revoked_key_invalidates_its_tokens_on_every_server(servers: tuple[Server, Server]) -> None:
    one, other = servers
    token = await one.token()
    assert await other.accepts(token)
    (key,) = await one.keys.keys()
    await one.keys.revoke(key.id)
    assert [await server.accepts(token) for server in servers] == [False, False]
    assert await other.accepts(await one.token())
    with pytest.raises(NotFound):
        await other.keys.revoke(key.id)


async def test_published_jwks_verify_tokens_and_contain_no_private_key(
    servers: tuple[Server, Server],
) -> None:
    one, other = servers
    tokens = [await one.token()]
    await other.keys.rotate()
    tokens.append(await one.token())
    published = {key.id: key.jwk() for key in await other.keys.keys()}
    assert len(published) == 2
    for token in tokens:
        key = jwt.PyJWK(published[parts(token)[0]["kid"]])
        read = jwt.decode(
            token.reveal(),
            key,
            algorithms=["ES256"],
            audience=ISSUER,
            issuer=ISSUER,
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
        assert read["scope"] == "PRINCIPAL_ROLE:ALL"
    for document in published.values():
        assert document.keys() == {"kty", "crv", "x", "y", "kid", "alg", "use"}


async def test_private_key_is_encrypted_and_bound_to_its_row(
    signing_keys: TokenSigningKeys, store: MetaStore, outbox: Outbox, clock: ManualClock, root: Credential
) -> None:
    await signing_keys.signer()
    other = MasterKeys({"first": b"2" * 32}, active="first")
    with pytest.raises(Exception, match="decryption failed"):
        await TokenSigningKeys(store, outbox, other, clock, root.principal).signer()


async def test_key_changes_emit_events(signing_keys: TokenSigningKeys, outbox: Outbox, store: MetaStore) -> None:
    first = await signing_keys.signer()
    second = await signing_keys.rotate()
    await signing_keys.revoke(first.id)
    events = [(entry.event.kind, entry.event.subject) for entry in await outbox.read_after(store, 0, 100)]
    assert events == [
        ("TokenKeyCreated", first.id),
        ("TokenKeyRetired", first.id),
        ("TokenKeyCreated", second.id),
        ("TokenKeyRevoked", first.id),
    ]
