"""Another catalog beside ours: what it says is set by a test, and the files are real."""

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
    """The metadata files of a table that the catalog does not know, oldest first."""

    files: list[str]
    uuid: str


async def foreign_history(catalog: CatalogHarness, commits: int = 3) -> History:
    """A table in `lake` that was committed to as often, and that has no name here."""
    made = await catalog.create("foreign")
    files = [made.entry.metadata_at]
    for _ in range(commits):
        committed = await catalog.commit(name("foreign"), *await appended(catalog, name("foreign")))
        files.append(committed.entry.metadata_at)
    await catalog.drop("foreign")
    return History(files, made.entry.uuid)


@dataclass(slots=True)
class Neighbour:
    """An Iceberg REST catalog with one table, as seen through `Http`."""

    history: History
    at: int = 0
    """How far along its history the table is."""
    uuid: str | None = None
    status: int = 200
    failure: LakebedError | None = None
    asked: list[HttpRequest] = field(default_factory=list)

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(request)
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
