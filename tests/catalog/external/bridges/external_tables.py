"""An external catalog whose state a test sets; its files are real."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from lakebed.catalog.external.bridges.model import BridgeConfig, ExternalCatalogKind, SyncMode
from lakebed.core.errors import LakebedError
from lakebed.net.http import HttpRequest, HttpResponse
from tests.catalog.appends import appended
from tests.catalog.harness import CatalogHarness, name

POLLED = BridgeConfig(
    catalog=ExternalCatalogKind.REST,
    external_namespace=("theirs",),
    external_table="t",
    uri="https://catalog.example",
    sync_mode=SyncMode.POLL,
    poll_seconds=60,
)
OPERATED = BridgeConfig(catalog=ExternalCatalogKind.GLUE, external_namespace=("theirs",), external_table="t")


@dataclass(slots=True)
class History:
    """The metadata files of a table that is not registered, oldest first."""

    files: list[str]
    uuid: str


async def external_history(catalog: CatalogHarness, commits: int = 3) -> History:
    """A table in `lake` with this many commits and without a name here."""
    made = await catalog.create("foreign")
    files = [made.entry.metadata_at]
    for _ in range(commits):
        committed = await catalog.commit(name("foreign"), *await appended(catalog, name("foreign")))
        files.append(committed.entry.metadata_at)
    await catalog.drop("foreign")
    return History(files, made.entry.uuid)


@dataclass(slots=True)
class ExternalRestCatalog:
    """An `Http` that responds as an Iceberg REST catalog with one table."""

    history: History
    at: int = 0
    """The index of the current metadata file in the history."""
    uuid: str | None = None
    status: int = 200
    failure: LakebedError | None = None
    requests: list[HttpRequest] = field(default_factory=list)

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        if "/v1/config" in request.url:
            return HttpResponse(200, b"{}")
        files = self.history.files
        table = {
            "metadata-location": files[self.at],
            "metadata": {
                "table-uuid": self.uuid or self.history.uuid,
                "metadata-log": [{"metadata-file": one, "timestamp-ms": 0} for one in files[: self.at]],
            },
        }
        return HttpResponse(self.status, json.dumps(table).encode())
