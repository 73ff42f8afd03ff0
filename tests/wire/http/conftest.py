from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from .certificate import Certificate, make_certificate


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test runs on uvloop, which the server uses, and on asyncio's loop: their transports differ."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A self-signed certificate for 127.0.0.1."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server_tls(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


@pytest.fixture
def client_tls(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.certificate))


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """A file of a little more than 3 MiB, without repeated content."""
    path = tmp_path / "numbered"
    path.write_bytes(b"".join(b"%015d\n" % number for number in range(200_000)))
    return path
