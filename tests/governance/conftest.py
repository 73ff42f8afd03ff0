from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakebed.core.access import Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.secrets import Secret
from lakebed.governance import AccessKeys, CredentialLookup, MasterKeys, Principals, Sessions
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.meta.sqlite.store import SqliteStore
from tests.meta.stores import open_migrated_file

from .documents import OWNER


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def master_keys() -> MasterKeys:
    return MasterKeys({"first": b"1" * 32}, active="first")


@pytest.fixture
def root() -> Credential:
    return Credential("ROOTKEY", Secret("root-secret"), root_of(OWNER, "ROOTKEY"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_migrated_file(tmp_path / "meta.db")
    yield opened
    await opened.close()


@pytest.fixture
def outbox(store: MetaStore) -> Outbox:
    return Outbox(store)


@pytest.fixture
def principals(store: MetaStore, outbox: Outbox, clock: ManualClock, root: Credential) -> Principals:
    return Principals(store, outbox, clock, root.principal)


@pytest.fixture
def access_keys(
    store: MetaStore, outbox: Outbox, master_keys: MasterKeys, clock: ManualClock, root: Credential
) -> AccessKeys:
    return AccessKeys(store, outbox, master_keys, clock, root)


@pytest.fixture
def sessions(master_keys: MasterKeys, access_keys: AccessKeys, clock: ManualClock) -> Sessions:
    return Sessions(master_keys, access_keys, clock)


@pytest.fixture
def credentials(access_keys: AccessKeys, sessions: Sessions) -> CredentialLookup:
    return CredentialLookup(access_keys, sessions)
