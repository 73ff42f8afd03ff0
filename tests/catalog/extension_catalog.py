"""The extensions of table buckets, on the catalogs of these tests."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.catalog.external.remote.client import RemoteCatalogs
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http, HttpRequest, HttpResponse
from lakebed.server.catalog_extensions import Extensions, wire_extensions

from .harness import CatalogHarness

MASTER = MasterKeys({"first": b"1" * 32}, active="first")


async def no_network(request: HttpRequest) -> HttpResponse:
    """Fails a test that sends a request unexpectedly."""
    raise AssertionError(f"a request went out: {request.url}")


def extended(catalog: CatalogHarness, http: Http = no_network, *, hosts: Sequence[str] = ("*",)) -> Extensions:
    """The extensions, wired like in the server; `http` sends requests to external catalogs on `hosts`."""
    return wire_extensions(
        catalog.store.object_context,
        catalog.authorizer,
        catalog.catalogs,
        catalog.entries,
        catalog.files,
        catalog.commits,
        catalog.registration,
        catalog.claims,
        MASTER,
        RemoteCatalogs(http, catalog.store.clock, AllowedHosts(hosts, setting="federation.hosts")),
    )
