"""Fixtures of the tests in depth: people who are not root."""

from __future__ import annotations

import pytest

from tests.clients.people import User, make_user
from tests.fixtures.server import RunningServer


@pytest.fixture(scope="session")
def nobody(lakebed_server: RunningServer) -> User:
    """A user of root's account with no policy: whatever is allowed, something else allows it."""
    return make_user(lakebed_server)


@pytest.fixture(scope="session")
def reader(lakebed_server: RunningServer) -> User:
    """A user who may read and list everything of S3."""
    return make_user(lakebed_server, "readonly")


@pytest.fixture(scope="session")
def writer(lakebed_server: RunningServer) -> User:
    """A user who may do everything of S3."""
    return make_user(lakebed_server, "readwrite")
