"""The step with vended credentials: requested from a Lakebed catalog as an engine does, and used inside and outside
their scope.

The table is staged and never created; the check drops its namespace.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

from lakebed.core.ids import new_blob_id
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import Credentials, HostEnvironment
from lakebed.storage.s3 import S3Options
from lakebed.storage.seam import Key

from .model import StepFailed, StepFinding, StepOutcome
from .scope import check_confinement, opened
from .store_client import StoreClient, StoreResponse
from .target import CheckedStore

_TABLE: Final = "t"
_JSON: Final = {"content-type": "application/json"}
_SCHEMA: Final = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class VendingSteps:
    """The step with credentials of a catalog."""

    def __init__(self, target: CheckedStore, client: StoreClient, host_environment: HostEnvironment) -> None:
        self._target = target
        self._client = client
        self._surroundings = host_environment

    async def vend(self, keys: Credentials) -> StepFinding:
        """Request credentials for a staged table, and check that they open its directory and nothing else."""
        if self._target.warehouse is None:
            return StepFinding("no --warehouse given", StepOutcome.SKIPPED)
        namespace = f"lakebed_check_{new_blob_id(self._surroundings.clock)}"
        endpoint = self._target.catalog_endpoint or self._target.endpoint
        base = f"{endpoint}/iceberg/v1/{quote(self._target.warehouse, safe='')}/namespaces"
        _require_success(await self._send("POST", base, keys, {"namespace": [namespace]}), "create a namespace")
        try:
            document = {"name": _TABLE, "schema": _SCHEMA, "stage-create": True}
            staged = await self._send("POST", f"{base}/{namespace}/tables", keys, document, delegated=True)
            _require_success(staged, "vend credentials for a table")
            found = await self._try(json.loads(staged.body))
        finally:
            dropped = await self._send("DELETE", f"{base}/{namespace}", keys)
        if dropped.status != 204:
            raise StepFailed(
                f"cannot drop the namespace {namespace} of the check: {dropped.status}",
                "Drop it manually, and allow s3tables:DeleteNamespace.",
            )
        return found

    async def _try(self, response: dict[str, Any]) -> StepFinding:  # Any: JSON
        credentials = response.get("storage-credentials") or []
        if len(credentials) != 1:
            raise StepFailed(
                "the catalog vended no credentials", "Check that the principal may write the table's data."
            )
        config = credentials[0]["config"]
        vended = Credentials(
            config["s3.access-key-id"], Secret(config["s3.secret-access-key"]), Secret(config["s3.session-token"])
        )
        location = urlsplit(response["metadata"]["location"])
        directory = location.path.strip("/")
        options = S3Options(
            bucket=location.netloc,
            endpoint=config.get("s3.endpoint", self._target.endpoint),
            region=self._target.region,
            path_style=True,
            allow_http=True,
        )
        async with (
            opened(replace(options, prefix=directory), vended, self._surroundings) as table,
            opened(options, vended, self._surroundings) as bucket,
        ):
            inside = Key(f"{directory}/lakebed-check")
            try:
                refusals = await check_confinement(
                    bucket,
                    inside,
                    outside=Key(f"{directory}10/lakebed-check"),
                    beside=(Key(f"{directory}10/lakebed-check"), Key(f"lakebed-check-{directory.rpartition('/')[2]}")),
                )
            finally:
                await table.delete(Key("lakebed-check"))
        return StepFinding(f"1 directory accessible, {refusals} attempts outside it denied")

    async def _send(
        self, method: str, url: str, keys: Credentials, document: object = None, *, delegated: bool = False
    ) -> StoreResponse:
        headers = dict(_JSON) if document is not None else {}
        if delegated:
            headers["x-iceberg-access-delegation"] = "vended-credentials"
        body = b"" if document is None else json.dumps(document).encode()
        return await self._client.signed(method, url, keys, headers=headers, body=body)


def _require_success(response: StoreResponse, what: str) -> None:
    if response.status != 200:
        try:
            words = str(json.loads(response.body)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            words = response.code
        raise StepFailed(
            f"could not {what}: {response.status} {words[:300]}".strip(),
            "Check that --warehouse names a table bucket of this server, and that the principal may create"
            " namespaces and tables in it.",
        )
