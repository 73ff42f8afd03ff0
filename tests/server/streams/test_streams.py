"""The composition of the streams process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from lakebed.core.errors import Unavailable
from lakebed.core.settings import ServerSettings, Settings
from lakebed.server.stores.identity import Identity, establish_identity
from lakebed.server.streams.composition import Streams, compose
from lakebed.wire.fluss.calls import API_VERSIONS, AUTHENTICATE, call_table

BETWEEN_SERVERS = {1013, 1018, 1019, 1020, 1022, 1027, 1028, 1029, 1031, 1043}
"""Calls between servers, which clients never send."""

KNOWN = set(range(1000, 1065))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(server=ServerSettings(data=tmp_path / "data"))


@pytest.fixture
def identity(settings: Settings) -> Identity:
    settings.server.data.mkdir()
    return establish_identity(settings)


@pytest_asyncio.fixture
async def streams(settings: Settings, identity: Identity) -> AsyncIterator[Streams]:
    async with compose(settings, identity, port=9123) as made:
        yield made


async def test_every_client_call_has_one_handler(streams: Streams) -> None:
    assert {API_VERSIONS, AUTHENTICATE, *call_table(streams.calls)} == KNOWN - BETWEEN_SERVERS


async def test_only_server_becomes_leader_immediately_and_again_after_a_restart(
    settings: Settings, identity: Identity
) -> None:
    for epoch in (1, 2):
        async with compose(settings, identity, port=9123) as made:
            await made.leadership.acquire()
            assert made.leadership.is_leader
            node = await made.leadership.node("10.0.0.7")
            assert (str(node.address), node.epoch) == ("10.0.0.7:9123", epoch)


async def test_process_without_the_lock_on_the_files_does_not_start(
    settings: Settings, identity: Identity, streams: Streams
) -> None:
    with pytest.raises(Unavailable, match="locked by another process"):
        async with compose(settings, identity, port=9124):
            pass
