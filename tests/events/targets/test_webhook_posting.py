"""Webhooks against a real HTTP server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts.targets import TargetContract
from tests.fixtures.brokers.webhook import WebhookService, running_receiver


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookService]:
    with running_receiver(tmp_path_factory.mktemp("receiver")) as service:
        yield service


class TestWebhook(TargetContract):
    """The contract."""
