"""A compaction service outside of the server: it finds tables, pulls the policies that hold for them, and compacts.

    LAKEBED_CLIENT_ID=… LAKEBED_CLIENT_SECRET=… python service.py http://127.0.0.1:9000 lake

It knows a client id, its secret and the public wires: OAuth2 for tokens, Iceberg REST for tables, `applicable-policies`
for what is to be done, `/lakebed/v1/events` for when to look again. Spark has the same credential and no keys.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple  # Any: JSON, and Spark
from urllib.parse import quote, urlencode

KIND = "system.data-compaction"
OPTIONS = {"target_file_size_bytes", "target-file-size-bytes", "min-input-files"}


class Table(NamedTuple):
    namespace: tuple[str, ...]
    name: str


class Catalog:
    """One catalog of a server, for who has a client id and its secret."""

    def __init__(self, endpoint: str, name: str, client_id: str, secret: str) -> None:
        self.endpoint, self.name, self.client_id, self.secret = endpoint, name, client_id, secret
        self._token, self._renew_at = "", 0.0

    def tables(self, parent: tuple[str, ...] = ()) -> Iterator[Table]:
        """All that the credential may see."""
        place = f"/iceberg/v1/{self.name}/namespaces"
        for levels in self.get(place, {"parent": "\x1f".join(parent)} if parent else {}).get("namespaces", []):
            for one in self.get(self._path(tuple(levels))).get("identifiers", []):
                yield Table(tuple(one["namespace"]), one["name"])
            yield from self.tables(tuple(levels))

    def snapshot(self, table: Table) -> Any:
        """The current one; None or -1 for a table that is empty, gone, or not for us."""
        loaded = self.get(f"{self._path(table.namespace)}/{quote(table.name, safe='')}", {"snapshots": "refs"})
        return loaded.get("metadata", {}).get("current-snapshot-id")

    def policy(self, table: Table) -> Any:
        """The compaction policy that holds for a table; None if there is none."""
        asked = {"namespace": "\x1f".join(table.namespace), "target-name": table.name, "policyType": KIND}
        return (self.get(f"/polaris/v1/{self.name}/applicable-policies", asked).get("applicable-policies") or [None])[0]

    def events(self, **query: object) -> Any:
        """What happened to tables and policies, in order."""
        page = self.get("/lakebed/v1/events", {"kind": "Table*,CatalogPolicy*", **query})
        return page or sys.exit("the service may not read events: give it a policy that allows lakebed:ReadEvents")

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """What is there, asked for with a token that is good; nothing of what is gone meanwhile, or not for us."""
        if time.monotonic() >= self._renew_at:
            form = {"grant_type": "client_credentials", "client_id": self.client_id, "client_secret": self.secret}
            granted = _fetch(f"{self.endpoint}/iceberg/v1/oauth/tokens", urlencode(form).encode())
            self._token, self._renew_at = granted["access_token"], time.monotonic() + granted["expires_in"] * 0.8
        url = f"{self.endpoint}{path}?{urlencode(query or {})}"
        try:
            return _fetch(url, Authorization=f"Bearer {self._token}")
        except urllib.request.HTTPError as error:
            if error.code not in (403, 404):
                raise
            return {}

    def _path(self, namespace: tuple[str, ...]) -> str:
        return f"/iceberg/v1/{self.name}/namespaces/{quote(chr(31).join(namespace), safe='')}/tables"


def _fetch(url: str, body: bytes | None = None, **headers: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.load(answer)


class Service:
    """Decides which tables to compact, and when."""

    def __init__(self, catalog: Catalog, compact: Callable[[Table, Mapping[str, str]], None]) -> None:
        self._catalog, self._compact = catalog, compact
        self._seen: dict[Table, tuple[object, object]] = {}  # the policy as it was, the snapshot that was left

    def consider(self, table: Table) -> bool:
        """Compact a table if its policy or its data are others than at the last look; whether it was done."""
        policy = self._catalog.policy(table)
        # Not the version alone: another policy may have been attached, or the same with other parameters.
        made_of = policy and [policy.get(part) for part in ("namespace", "name", "version", "parameters")]
        snapshot = self._catalog.snapshot(table)
        if self._seen.get(table) == (made_of, snapshot):
            return False
        content: dict[str, Any] = json.loads(policy["content"]) if policy else {"enable": False}
        if is_wanted := bool(content["enable"]) and snapshot not in (None, -1):
            config = {**content.get("config", {}), **(policy.get("parameters") or {})}
            self._compact(table, {key.replace("_", "-"): str(config[key]) for key in OPTIONS if key in config})
            snapshot = self._catalog.snapshot(table)
        self._seen[table] = (made_of, snapshot)
        return is_wanted

    def sweep(self) -> list[Table]:
        """Look at every table; those that were compacted."""
        return [table for table in self._catalog.tables() if self.consider(table)]

    def react(self, after: int, wait_seconds: int = 20) -> tuple[int, list[Table]]:
        """Wait for news and look at what they are about; where to go on, and what was compacted."""
        page = self._catalog.events(**{"after": after, "wait-seconds": wait_seconds})
        about = [one for one in page["events"] if one["payload"].get("warehouse") == self._catalog.name]
        if any(one["kind"].startswith("CatalogPolicy") for one in about):
            return page["next-after"], self.sweep()
        touched = dict.fromkeys(Table(tuple(one["payload"]["namespace"]), one["payload"]["name"]) for one in about)
        return page["next-after"], [table for table in touched if self.consider(table)]


def spark_compaction(catalog: Catalog, spark: Any) -> Callable[[Table, Mapping[str, str]], None]:
    """Compaction by Spark, which has Iceberg's runtime and the credential."""
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": f"{catalog.endpoint}/iceberg",
        ".warehouse": catalog.name,
        ".credential": f"{catalog.client_id}:{catalog.secret}",
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.compaction{key}", value)

    def compact(table: Table, options: Mapping[str, str]) -> None:
        name = ".".join("`" + part.replace("`", "``") + "`" for part in (*table.namespace, table.name))
        name = name.replace("\\", "\\\\").replace("'", "\\'")
        chosen = ", ".join(f"'{key}', '{value}'" for key, value in {"rewrite-all": "false", **options}.items())
        spark.sql(f"CALL compaction.system.rewrite_data_files(table => '{name}', options => map({chosen}))").collect()

    return compact


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    lake = Catalog(sys.argv[1], sys.argv[2], os.environ["LAKEBED_CLIENT_ID"], os.environ["LAKEBED_CLIENT_SECRET"])
    service = Service(lake, spark_compaction(lake, SparkSession.builder.getOrCreate()))
    position, compacted = lake.events(limit=0)["last-seq"], service.sweep()
    while True:
        print("compacted", compacted)
        position, compacted = service.react(position)
