from __future__ import annotations

import json
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from tests.fixtures.raw_http import Connection, Signer
from tests.fixtures.server import running_server

from .site import BUCKET, KEPT, VERSIONED, Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server(tmp_path_factory.mktemp("bad-input") / "data") as server:
        signer = Signer(f"127.0.0.1:{server.port}")
        versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        with Connection(server.port) as connection:
            for request in (
                signer.request("PUT", f"/{BUCKET}"),
                signer.request("PUT", f"/{VERSIONED}"),
                signer.request("PUT", f"/{VERSIONED}?versioning", None, versioning),
                signer.request("PUT", f"/{BUCKET}/{KEPT}", None, b"kept bytes"),
                signer.request("PUT", f"/{VERSIONED}/{KEPT}", None, b"kept bytes"),
            ):
                response = connection.exchange(request)
                assert response.status == 200, response
            created = connection.exchange(signer.request("POST", f"/{BUCKET}/upload?uploads"))
        upload = ElementTree.fromstring(created.body).findtext("{http://s3.amazonaws.com/doc/2006-03-01/}UploadId")
        assert upload is not None
        yield Site(server, signer, upload)


@pytest.fixture(autouse=True)
def quiet(site: Site) -> Iterator[None]:
    """Checks that the server logs no failure."""
    begin = site.server.log.stat().st_size
    yield
    for line in site.server.log.read_bytes()[begin:].decode().splitlines():
        entry = json.loads(line)
        assert entry["level"] == "info", entry.get("error", line)


@pytest.fixture
def unchanged(site: Site) -> Iterator[None]:
    """Checks that the test stores and removes nothing."""
    before = site.stored()
    yield
    assert site.stored() == before
