"""Fixtures of the tests in depth: a server over TLS, and somebody who is not root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.clients.people import User, make_user
from tests.clients.tls import Certificate, make_certificate, running_tls_server
from tests.fixtures.server import RunningServer


@dataclass(frozen=True, slots=True)
class TlsServer:
    """A server over TLS and the certificate that its clients trust."""

    server: RunningServer
    certificate: Certificate

    @property
    def trust(self) -> str:
        return str(self.certificate.certificate)


@pytest.fixture(scope="session")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    folder = tmp_path_factory.mktemp("tls")
    certificate = make_certificate(folder)
    with running_tls_server(folder / "data", certificate) as server:
        yield TlsServer(server, certificate)


@pytest.fixture(scope="session")
def nobody(lakebed_server: RunningServer) -> User:
    """A user of root's account with no policy: whatever is allowed, something else allows it."""
    return make_user(lakebed_server)


@pytest.fixture(scope="session")
def writer(lakebed_server: RunningServer) -> User:
    """A user who may do everything of S3."""
    return make_user(lakebed_server, "readwrite")
