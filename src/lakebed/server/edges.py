"""The edge of each listener: the application that serves its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lakebed.wire.http.message import Rejecter, Request
from lakebed.wire.http.protocol import Application
from lakebed.wire.json.app import reject_head

from .api_paths import Api, server_api_paths
from .child import CATALOG_CONNECTION, CONNECTION
from .connections import Edge
from .dispatch import OF_S3, BucketLookup, CatalogListenerChoice, ChooseApi, Dispatcher, SharedListenerChoice


def wire_edges(
    applications: Mapping[Api, Application],
    reject: Rejecter,
    record: Callable[[Request], None],
    buckets: BucketLookup,
    log_access: Callable[[Application], Application],
    *,
    domains: tuple[str, ...],
    has_catalog_listener: bool,
) -> Mapping[bytes, Edge]:
    """The edge of each listener by the mark of its connections; `reject` is S3's response to unreadable heads."""

    def edge(choose: ChooseApi, rejecter: Rejecter) -> Edge:
        return Edge(log_access(Dispatcher(choose, applications, buckets, record)), rejecter)

    paths = server_api_paths()
    if not has_catalog_listener:
        return {CONNECTION: edge(SharedListenerChoice(paths, domains), reject)}
    return {
        CONNECTION: edge(lambda _: OF_S3, reject),
        CATALOG_CONNECTION: edge(CatalogListenerChoice(paths), reject_head),
    }
