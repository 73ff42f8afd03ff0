"""The edge of each listener: the application that answers its requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from lakebed.wire.http.message import Rejecter, Request, Response
from lakebed.wire.http.protocol import Application
from lakebed.wire.iceberg.app import reject_head

from ..processes.child import CATALOG_CONNECTION, CONNECTION
from .api_paths import Api, server_api_paths
from .connections import Edge
from .dispatch import OF_S3, CatalogDispatch, Dispatch, SharedDispatch, root_of_path

Attend = Callable[[Request], None]
"""Called with every request but those of health probes and metrics."""

HasBucket = Callable[[str], Awaitable[bool]]
"""Whether a bucket has the name."""


def wire_edges(
    apis: Mapping[Api, Application],
    reject: Rejecter,
    attend: Attend,
    has_bucket: HasBucket,
    log_access: Callable[[Application], Application],
    *,
    domains: tuple[str, ...],
    has_catalog_listener: bool,
) -> Mapping[bytes, Edge]:
    """The edge of each listener by the mark of its connections; `reject` is S3's answer to unreadable heads."""

    def edge(dispatch: Dispatch, rejecter: Rejecter) -> Edge:
        return Edge(log_access(_application(apis, dispatch, attend, has_bucket)), rejecter)

    paths = server_api_paths()
    if not has_catalog_listener:
        return {CONNECTION: edge(SharedDispatch(paths, domains), reject)}
    return {
        CONNECTION: edge(lambda _: OF_S3, reject),
        CATALOG_CONNECTION: edge(CatalogDispatch(paths), reject_head),
    }


def _application(
    apis: Mapping[Api, Application], dispatch: Dispatch, attend: Attend, has_bucket: HasBucket
) -> Application:
    async def application(request: Request) -> Response:
        api, without_bucket = dispatch(request)
        if without_bucket is not None and not await has_bucket(root_of_path(request.raw_path)):
            api = without_bucket
        if api is not Api.HEALTH:
            attend(request)
        return await apis[api](request)

    return application
