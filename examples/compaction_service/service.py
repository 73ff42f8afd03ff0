"""An external compaction service: finds tables, reads the policies that apply to them, and compacts.

    LAKEBED_CLIENT_ID=… LAKEBED_CLIENT_SECRET=… python service.py http://127.0.0.1:9000 lake

It needs a client id and secret, and uses public APIs: OAuth2 for tokens, Iceberg REST for tables, `applicable-policies`
for policies, `/lakebed/v1/events` for changes. Spark has the same credential and no access keys.
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
    """A client of one catalog, with a client id and secret."""

    def __init__(self, endpoint: str, name: str, client_id: str, secret: str) -> None:
        self.endpoint, self.name, self.client_id, self.secret = endpoint, name, client_id, secret
        self._token, self._renew_at = "", 0.0

    def tables(self, parent: tuple[str, ...] = ()) -> Iterator[Table]:
        """All tables that the principal may list, at every level."""
        path = f"/iceberg/v1/{self.name}/namespaces"
        for levels in self.get(path, {"parent": "\x1f".join(parent)} if parent else {}).get("namespaces", []):
            for identifier in self.get(self._path(tuple(levels))).get("identifiers", []):
                yield Table(tuple(identifier["namespace"]), identifier["name"])
            yield from self.tables(tuple(levels))

    def snapshot(self, table: Table) -> Any:
        """The current snapshot id; None or -1 for a table that is empty, dropped or not permitted."""
        loaded = self.get(f"{self._path(table.namespace)}/{quote(table.name, safe='')}", {"snapshots": "refs"})
        return loaded.get("metadata", {}).get("current-snapshot-id")

    def policy(self, table: Table) -> Any:
        """The compaction policy that applies to a table; None if there is none."""
        query = {"namespace": "\x1f".join(table.namespace), "target-name": table.name, "policyType": KIND}
        return (self.get(f"/polaris/v1/{self.name}/applicable-policies", query).get("applicable-policies") or [None])[0]

    def events(self, **query: object) -> Any:
        """A page of events of tables and policies, in order."""
        page = self.get("/lakebed/v1/events", {"kind": "Table*,CatalogPolicy*", **query})
        return page or sys.exit("permission to read events denied: add a user policy that allows lakebed:ReadEvents")

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Any:
        """The document at a path, with a valid token; empty if it does not exist or is not permitted."""
        if time.monotonic() >= self._renew_at:
            form = {"grant_type": "client_credentials", "client_id": self.client_id, "client_secret": self.secret}
            token = _fetch(f"{self.endpoint}/iceberg/v1/oauth/tokens", urlencode(form).encode())
            self._token, self._renew_at = token["access_token"], time.monotonic() + token["expires_in"] * 0.8
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
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as response:
        return json.load(response)


class Service:
    """Decides which tables to compact, and when."""

    def __init__(self, catalog: Catalog, compact: Callable[[Table, Mapping[str, str]], None]) -> None:
        self._catalog, self._compact = catalog, compact
        self._seen: dict[Table, tuple[object, object]] = {}  # policy and snapshot after the last check

    def consider(self, table: Table) -> bool:
        """Compact a table if its policy or snapshot has changed since the last check; return whether it did."""
        policy = self._catalog.policy(table)
        # Not only the version: another policy may be attached, or the same with other parameters.
        identity = policy and [policy.get(part) for part in ("namespace", "name", "version", "parameters")]
        snapshot = self._catalog.snapshot(table)
        if self._seen.get(table) == (identity, snapshot):
            return False
        content: dict[str, Any] = json.loads(policy["content"]) if policy else {"enable": False}
        if is_enabled := bool(content["enable"]) and snapshot not in (None, -1):
            config = {**content.get("config", {}), **(policy.get("parameters") or {})}
            self._compact(table, {key.replace("_", "-"): str(config[key]) for key in OPTIONS if key in config})
            snapshot = self._catalog.snapshot(table)
        self._seen[table] = (identity, snapshot)
        return is_enabled

    def sweep(self) -> list[Table]:
        """Check every table; return the compacted ones."""
        return [table for table in self._catalog.tables() if self.consider(table)]

    def react(self, after: int, wait_seconds: int = 20) -> tuple[int, list[Table]]:
        """Wait for events and check their tables; return the next position and the compacted tables."""
        page = self._catalog.events(**{"after": after, "wait-seconds": wait_seconds})
        events = [event for event in page["events"] if event["payload"].get("warehouse") == self._catalog.name]
        if any(event["kind"].startswith("CatalogPolicy") for event in events):
            return page["next-after"], self.sweep()
        changed = dict.fromkeys(Table(tuple(e["payload"]["namespace"]), e["payload"]["name"]) for e in events)
        return page["next-after"], [table for table in changed if self.consider(table)]


def spark_compaction(catalog: Catalog, spark: Any) -> Callable[[Table, Mapping[str, str]], None]:
    """Compaction with Spark, which has Iceberg's runtime and the credential."""
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
