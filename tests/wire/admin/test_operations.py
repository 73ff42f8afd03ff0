from __future__ import annotations

import pytest

from lakebed.client import LakebedClient
from lakebed.core.errors import NotFound
from lakebed.wire.admin.operations import admin_mount
from tests.client.conftest import access_to
from tests.fixtures.server import RunningServer

from .test_app import scrape


def test_operations_have_unique_names_and_are_extensions() -> None:
    routes = admin_mount().routes.routes
    assert len({route.name for route in routes}) == len(routes)
    assert not any(route.is_standard for route in routes)


@pytest.mark.integration
@pytest.mark.slow
def test_responses_are_counted_by_operation(lakebed_server: RunningServer) -> None:
    def counted(status: str) -> float:
        labels = (("operation", "getTask"), ("status", status))
        return scrape(lakebed_server).get(("lakebed_admin_requests_total", labels), 0.0)

    before = counted("404")
    with LakebedClient(access=access_to(lakebed_server)) as client, pytest.raises(NotFound):
        client.tasks.get(1 << 40)
    assert counted("404") == before + 1
