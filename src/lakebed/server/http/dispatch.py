"""Dispatches each request of a listener to the API that serves it.

A path-style S3 request and a request of another API can have the same path: the bucket `iceberg` with the key
`v1/config`, and the catalog's configuration. Signatures do not distinguish them, since clients of the catalog sign for
the service `s3` too. The rules, in order:

1. A virtual-host-style request is for S3: its host name is a bucket's.
2. A request that only S3 clients send is for S3: it names an upload, a checksum or another detail of an object.
3. A path and method that an API has a route for is for that API.
4. A path that an API has a route for, with another method, is for S3 if the method is `PUT`, `DELETE` or `HEAD`. S3
   rejects such keys with an explanation (`ReservedNames`). Other methods get the API's 405.
5. A path below an API's prefix that has no route is for S3.
6. Everything else is for S3.

Under 4 and 5 the API responds instead, with 405 or 404, if no bucket has the name or the client is not an S3 client.
Requests about a bucket itself always go to S3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from lakebed.core.errors import LakebedError
from lakebed.meta.seam import MetaStore
from lakebed.objects.rows import BUCKET_BY_NAME
from lakebed.wire.aws.request_target import bucket_of_host
from lakebed.wire.http.message import Rejecter, Request, Response
from lakebed.wire.http.protocol import Application
from lakebed.wire.json.app import reject_head

from ..processes.child import CATALOG_CONNECTION, CONNECTION
from .api_paths import Api, ApiPaths, server_api_paths
from .connections import ListenerApp

_OF_OBJECTS: Final = ("PUT", "DELETE", "HEAD")

_S3_PARAMETERS: Final = frozenset({"uploads", "uploadId", "partNumber", "versionId", "select", "x-id"})
_S3_HEADERS: Final = frozenset(
    {
        "x-amz-acl",
        "x-amz-copy-source",
        "x-amz-decoded-content-length",
        "x-amz-expected-bucket-owner",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-trailer",
    }
)
_S3_HEADER_PREFIXES: Final = ("x-amz-checksum-", "x-amz-meta-", "x-amz-object-lock-", "x-amz-server-side-encryption")


class ApiChoice(NamedTuple):
    """The API that serves a request."""

    api: Api
    without_bucket: Api | None = None
    """The API that serves it instead if no bucket has the name of the path's first segment."""


ChooseApi = Callable[[Request], ApiChoice]

OF_S3: Final = ApiChoice(Api.S3)


class ApiDispatcher:
    """The application of a listener: passes each request to the application of its API."""

    def __init__(
        self,
        choose: ChooseApi,
        applications: Mapping[Api, Application],
        buckets: BucketLookup,
        record: Callable[[Request], None],
    ) -> None:
        """`record` is called with every request except health probes and metrics."""
        self._choose = choose
        self._applications = applications
        self._buckets = buckets
        self._record = record

    async def __call__(self, request: Request) -> Response:
        """The response of the API."""
        api, without_bucket = self._choose(request)
        if without_bucket is not None and not await self._buckets.may_exist(root_of_path(request.raw_path)):
            api = without_bucket
        if api is not Api.HEALTH:
            self._record(request)
        return await self._applications[api](request)


class BucketLookup:
    """Looks up whether a bucket has a name."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta

    async def may_exist(self, name: str) -> bool:
        """Whether the bucket exists; true if the metadata store fails, because S3 then responds with the error."""
        try:
            return await self._meta.row(BUCKET_BY_NAME, name) is not None
        except LakebedError:
            return True


class SharedListenerChoice:
    """Chooses the API on the listener that S3 shares with the others."""

    def __init__(self, paths: ApiPaths, domains: tuple[str, ...] = ()) -> None:
        """`domains` are host names under which `BUCKET.DOMAIN` addresses a bucket."""
        self._paths = paths
        self._domains = domains

    def __call__(self, request: Request) -> ApiChoice:
        """The API that serves the request."""
        path = request.raw_path
        if not self._paths.has_root(root_of_path(path)):
            return OF_S3
        if bucket_of_host(request.headers.get("host", ""), self._domains) is not None:
            return OF_S3
        return choose_api(self._paths, request.method, path, request.raw_query, request.headers)


class CatalogListenerChoice:
    """Chooses the API on the listener of every API but S3. The catalog refuses paths of no API."""

    def __init__(self, paths: ApiPaths) -> None:
        self._paths = paths

    def __call__(self, request: Request) -> ApiChoice:
        """The API that serves the request."""
        methods = self._paths.find(request.raw_path)
        if request.method in methods:
            return ApiChoice(methods[request.method])
        return ApiChoice(next(iter(methods.values()), None) or self._paths.below(request.raw_path) or Api.CATALOG)


def wire_listeners(
    applications: Mapping[Api, Application],
    reject: Rejecter,
    record: Callable[[Request], None],
    buckets: BucketLookup,
    log_access: Callable[[Application], Application],
    *,
    domains: tuple[str, ...],
    has_catalog_listener: bool,
) -> Mapping[bytes, ListenerApp]:
    """The application of each listener, by the mark of its connections. `reject` is S3's response to bad heads."""

    def app(choose: ChooseApi, rejecter: Rejecter) -> ListenerApp:
        return ListenerApp(log_access(ApiDispatcher(choose, applications, buckets, record)), rejecter)

    paths = server_api_paths()
    if not has_catalog_listener:
        return {CONNECTION: app(SharedListenerChoice(paths, domains), reject)}
    return {
        CONNECTION: app(lambda _: OF_S3, reject),
        CATALOG_CONNECTION: app(CatalogListenerChoice(paths), reject_head),
    }


def choose_api(paths: ApiPaths, method: str, path: str, raw_query: str, headers: Mapping[str, str]) -> ApiChoice:
    """The API of a request that is not virtual-host-style. Header names are in lower case."""
    if is_of_s3(raw_query, headers):
        return OF_S3
    methods = paths.find(path)
    if method in methods:
        return ApiChoice(methods[method])
    api = next(iter(methods.values()), None) or paths.below(path)
    if api is not None and (is_of_api(headers) or (methods and method not in _OF_OBJECTS)):
        return ApiChoice(api)
    if "/" not in path.strip("/"):
        # A request about the bucket itself, such as one that creates it: S3 says that the name is reserved.
        return OF_S3
    return ApiChoice(Api.S3, without_bucket=api)


def root_of_path(path: str) -> str:
    """The first segment of a path: in path style, the bucket."""
    end = path.find("/", 1)
    return path[1:] if end < 0 else path[1:end]


def is_of_s3(raw_query: str, headers: Mapping[str, str]) -> bool:
    """Whether only S3 clients send such a request."""
    if raw_query and any(pair.partition("=")[0] in _S3_PARAMETERS for pair in raw_query.split("&")):
        return True
    if headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        return True
    return any(name in _S3_HEADERS or name.startswith(_S3_HEADER_PREFIXES) for name in headers)


def is_of_api(headers: Mapping[str, str]) -> bool:
    """Whether no S3 client sends such a request: it has a bearer token, or is signed for S3 Tables."""
    authorization = headers.get("authorization", "")
    return authorization[:7].lower() == "bearer " or "/s3tables/aws4_request" in authorization
