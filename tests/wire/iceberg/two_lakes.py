"""Two servers without a network: the near one has a federated catalog, which forwards to `lake` of the far one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lakebed.catalog.external.remote.client import CONFIG_LIFETIME_MS
from lakebed.core.access import Authorizer
from lakebed.core.clock import ManualClock
from lakebed.core.errors import Unavailable
from lakebed.net.http import HttpRequest, HttpResponse
from tests.clients.boto import Keys
from tests.objects.stores import opened_store
from tests.wire.management.management_client import ManagementClient

from .lake import ROOT_KEYS, SCHEMA, Answer, Lake, opened_lake, wire_lake

FAR: Final = "far.example:9000"
CATALOG: Final = "behind"
"""The federated catalog of the near server."""

CONNECTION: Final[dict[str, Any]] = {
    "connectionType": "ICEBERG_REST",
    "uri": f"http://{FAR}/iceberg",
    "remoteCatalogName": "lake",
    "authenticationParameters": {
        "authenticationType": "SIGV4",
        "accessKeyId": ROOT_KEYS.access_key,
        "secretAccessKey": ROOT_KEYS.secret_key,
        "signingRegion": "us-east-1",
        "signingName": "s3",
    },
}


@dataclass
class Wire:
    """The `Http` of the near server: forwards to the far server, or returns a test's responses."""

    far: Lake
    requests: list[HttpRequest] = field(default_factory=list)
    instead: Callable[[HttpRequest], HttpResponse | None] | None = None
    """Called instead of the far server, unless it returns None; it may raise."""
    loses_responses: bool = False
    """Whether responses to changes are lost."""

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if self.instead is not None:
            response = self.instead(request)
            if response is not None:
                return response
        parts = urlsplit(request.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        answer = await self.far.send(
            request.method, target, request.body, request.headers, keys=None, host=parts.netloc
        )
        if self.loses_responses and request.method not in ("GET", "HEAD"):
            raise Unavailable("no answer", undecided=True)
        return HttpResponse(answer.status, answer.body, answer.headers)

    def take(self) -> list[tuple[str, str]]:
        """The requests since the last call, except for the configuration."""
        seen = [(one.method, urlsplit(one.url).path) for one in self.requests if "/v1/config" not in one.url]
        self.requests.clear()
        return [(method, path.removeprefix("/iceberg/v1")) for method, path in seen]


@dataclass
class TwoLakes:
    """A near server, a far one, and the wire between them."""

    near: Lake
    far: Lake
    wire: Wire

    @property
    def management(self) -> ManagementClient:
        """The near server's management API."""
        return ManagementClient(self.near)

    async def connect(self, **changes: Any) -> Answer:
        """Connect the near catalog."""
        document = {**CONNECTION, **changes}
        return await self.near.send("PUT", f"/lakebed/v1/connections/{CATALOG}", json.dumps(document).encode())

    async def call(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        keys: Keys = ROOT_KEYS,
        access: str | None = None,
        **headers: str,
    ) -> Answer:
        """Call the federated catalog; `path` follows its name."""
        return await self.near.call(method, f"/{CATALOG}{path}", document, keys=keys, access=access, **headers)

    async def call_ok(self, method: str, path: str, document: object = None, *, keys: Keys = ROOT_KEYS) -> Any:
        """Send a request that must succeed, and return the response document."""
        answer = await self.call(method, path, document, keys=keys)
        assert answer.status in (200, 204), answer
        return answer.document if answer.body else None

    async def table(self, name: str = "t", *, keys: Keys = ROOT_KEYS, access: str | None = None, **more: Any) -> Answer:
        """Create a table in `ns` through the federated catalog."""
        document = {"name": name, "schema": SCHEMA, **{key.replace("_", "-"): value for key, value in more.items()}}
        return await self.call("POST", "/namespaces/ns/tables", document, keys=keys, access=access)

    async def member(self, name: str, *grants: Mapping[str, Any]) -> Keys:
        """Create a principal of the near server with these grants on its catalog, and return its S3 keys."""
        management = self.management
        await management.role(name)
        roles = f"/catalogs/{CATALOG}/catalog-roles"
        await management.call_ok("POST", roles, {"catalogRole": {"name": name}})
        for grant in grants:
            await management.call_ok("PUT", f"{roles}/{name}/grants", {"grant": grant})
        await management.call_ok(
            "PUT", f"/principal-roles/{name}/catalog-roles/{CATALOG}", {"catalogRole": {"name": name}}
        )
        return await management.principal_with_role(name, name)

    def expire_config(self) -> None:
        """Advance the clocks until the cached configuration of the far server expires."""
        for lake in (self.near, self.far):
            lake.clock.advance(CONFIG_LIFETIME_MS / 1000)

    async def events(self) -> list[str]:
        """The kinds of events of the near server."""
        found = await self.near.store.object_context.meta.rows("SELECT kind FROM outbox ORDER BY seq")
        return [str(kind) for (kind,) in found]


@asynccontextmanager
async def two_lakes(
    folder: Path, *, connected: bool = True, authorizer: Authorizer | None = None
) -> AsyncIterator[TwoLakes]:
    """Both servers; the far one has a namespace `ns` in its `lake`, the near one a catalog that can be federated."""
    (folder / "far").mkdir()
    (folder / "near").mkdir()
    async with opened_lake(folder / "far") as far:
        wire = Wire(far)
        near_folder = folder / "near"
        async with opened_store(f"sqlite:{near_folder / 'meta.db'}", "memory", near_folder, ManualClock()) as store:
            if authorizer is not None:
                store = replace(store, object_context=replace(store.object_context, authorizer=authorizer))
            near = wire_lake(store, http=wire, hosts=("*.example",))
            await store.bucket(CATALOG)
            assert (await near.call("PUT", f"/buckets/{CATALOG}")).status == 200
            both = TwoLakes(near, far, wire)
            if connected:
                assert (await both.connect()).status == 200
            yield both
