from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.access import Credential
from lakebed.core.clock import ManualClock
from lakebed.governance import AccessKeys, MasterKeys
from lakebed.governance.tokens import (
    ClientAuthenticator,
    ClientCredentialStore,
    LoginThrottle,
    SecretHasher,
    TokenIssuer,
    TokenSigningKeys,
    TokenVerifier,
)
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from tests.meta.stores import open_migrated

ISSUER = "lakebed-test"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.integration)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetaStore]:
    """SQLite and PostgreSQL."""
    address = f"sqlite:{tmp_path / 'meta.db'}"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_dsn")
    opened = await open_migrated(address)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def hashes() -> SecretHasher:
    """Cheap hashes."""
    return SecretHasher(passes=1, memory_kib=8)


@pytest.fixture
def client_credentials(
    store: MetaStore, outbox: Outbox, hashes: SecretHasher, clock: ManualClock, root: Credential
) -> ClientCredentialStore:
    return ClientCredentialStore(store, outbox, hashes, clock, root.principal, root.access_key_id)


@pytest.fixture
def attempts(clock: ManualClock) -> LoginThrottle:
    return LoginThrottle(clock)


@pytest.fixture
def clients(
    store: MetaStore, access_keys: AccessKeys, hashes: SecretHasher, attempts: LoginThrottle, master_keys: MasterKeys
) -> ClientAuthenticator:
    return ClientAuthenticator(store, access_keys, hashes, attempts, master_keys)


@pytest.fixture
def signing_keys(
    store: MetaStore, outbox: Outbox, master_keys: MasterKeys, clock: ManualClock, root: Credential
) -> TokenSigningKeys:
    return TokenSigningKeys(store, outbox, master_keys, clock, root.principal)


@pytest.fixture
def verifier(store: MetaStore, access_keys: AccessKeys, master_keys: MasterKeys, clock: ManualClock) -> TokenVerifier:
    return TokenVerifier(store, access_keys, master_keys, clock, issuer=ISSUER)


@pytest.fixture
def issuer(signing_keys: TokenSigningKeys, verifier: TokenVerifier, clock: ManualClock) -> TokenIssuer:
    return TokenIssuer(signing_keys, verifier, clock, issuer=ISSUER, lifetime_seconds=3600, renewal_seconds=7 * 86_400)
