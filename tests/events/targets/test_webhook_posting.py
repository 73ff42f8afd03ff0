"""Webhooks against a server that listens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.webhooks import new_secret
from lakebed.events.targets.seam import Target
from lakebed.events.targets.webhook import WebhookSettings, webhook_kind

from .basics import TargetContract
from .http_server import RawServer, raw_server


class WebhookBench:
    """A receiver that takes everything."""

    def __init__(self, server: RawServer) -> None:
        self._server = server
        self._kind = webhook_kind(ManualClock(), timeout_seconds=30, allow_http=False)

    def make(self) -> Target:
        return self._kind.make(WebhookSettings(endpoint=self._server.url(), secret=new_secret().reveal()))

    async def received(self, at_least: int) -> list[bytes]:
        bodies = [body for body in self._server.bodies if body]
        assert len(bodies) >= at_least
        return bodies

    async def stop(self) -> None:
        await self._server.stop()

    async def start(self) -> None:
        await self._server.start()


class TestWebhook(TargetContract):
    @pytest.fixture
    async def bench(self) -> AsyncIterator[WebhookBench]:
        async with raw_server() as server:
            yield WebhookBench(server)
