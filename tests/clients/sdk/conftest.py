"""Users for the S3 tests."""

from __future__ import annotations

import pytest

from tests.clients.users import User, make_user
from tests.fixtures.server import RunningServer


@pytest.fixture(scope="session")
def unprivileged(lakebed_server: RunningServer) -> User:
    """A user of root's account without a policy."""
    return make_user(lakebed_server)


@pytest.fixture(scope="session")
def reader(lakebed_server: RunningServer) -> User:
    """A user that may read and list everything in S3."""
    return make_user(lakebed_server, "readonly")


@pytest.fixture(scope="session")
def writer(lakebed_server: RunningServer) -> User:
    """A user with every S3 permission."""
    return make_user(lakebed_server, "readwrite")
