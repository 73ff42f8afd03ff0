"""Time of single operations: authorization decisions, applicable policies, tokens."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from benchmarks.governance.site import Site, make_namespaces, opened
from benchmarks.governance.timing import Timed, Work, timed
from benchmarks.pipeline import planning
from benchmarks.pipeline.planning import LAKE, ROOT
from lakebed.catalog.access.authorization import Action, CatalogAuthorizer
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.policies.attachments import CATALOG, TargetName
from lakebed.core.settings import DecisionMode, DecisionsSettings
from lakebed.governance.policies.maintenance_content import (
    DATA_COMPACTION,
    METADATA_COMPACTION,
    ORPHAN_FILE_REMOVAL,
    SNAPSHOT_EXPIRY,
)
from lakebed.governance.rbac.model import GrantTarget
from lakebed.governance.rbac.privileges import GrantKind, Privilege
from lakebed.governance.tokens.model import IssuedToken, NewClientCredentials
from lakebed.iceberg.commits.creation import parse_create_table
from lakebed.meta.seam import Transaction
from lakebed.objects.model import Caller
from lakebed.server.decisions import wire_authorizer

CACHED_GOAL_SECONDS: Final = 20e-6
LEVELS: Final = tuple(f"level{number}" for number in range(1, 6))
TABLE: Final = "orders"
_TABLE: Final = {
    "name": TABLE,
    "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
}
OTHER_GRANTS: Final = 200
"""Other grants of the role: tables of another namespace."""


def measure(folder: Path, *, rounds: int, seconds: float) -> list[Timed]:
    """Measure all operations."""
    return asyncio.run(_measure(folder, rounds, seconds))


async def _measure(folder: Path, rounds: int, seconds: float) -> list[Timed]:
    async with opened(folder) as site:
        await _create_resources(site)
        return [
            *await _decisions(site, rounds, seconds),
            await _policies(site, rounds, seconds),
            *await _tokens(site, rounds, seconds),
        ]


async def _create_resources(site: Site) -> None:
    """Create a table five levels deep, tables of another namespace, and policies at every level."""
    await make_namespaces(site, *LEVELS)
    await make_namespaces(site, "ns0")
    await planning.publish(site.catalog, "ns0", range(OTHER_GRANTS))
    await site.creation.create(Mutation(ROOT), LAKE, LEVELS, parse_create_table(json.dumps(_TABLE).encode()))
    target = TargetName.of(list(LEVELS), TABLE)
    await site.catalog.policy("compaction", DATA_COMPACTION, CATALOG, **{"min-input-files": 5})
    await site.catalog.policy("manifests", METADATA_COMPACTION, CATALOG)
    await site.catalog.policy("expiry", SNAPSHOT_EXPIRY, CATALOG)
    await site.catalog.policy("orphans", ORPHAN_FILE_REMOVAL, TargetName.of(list(LEVELS[:2])))
    for depth in range(1, len(LEVELS) + 1):
        level_target = TargetName.of(list(LEVELS[:depth]))
        await site.catalog.policy(
            f"compaction-{depth}", DATA_COMPACTION, level_target, **{"min-input-files": 5 + depth}
        )
    await site.catalog.policy("of-the-table", SNAPSHOT_EXPIRY, target)


async def _decisions(site: Site, rounds: int, seconds: float) -> list[Timed]:
    others = [
        (GrantTarget(GrantKind.TABLE, ("ns0",), f"t{number}"), Privilege.TABLE_READ_DATA)
        for number in range(OTHER_GRANTS)
    ]
    above = (GrantTarget(GrantKind.NAMESPACE, LEVELS[:1]), Privilege.TABLE_READ_DATA)
    key = await site.holder("reader", above, *others)
    await site.principals.create_user("writer", canned=["readwrite"])
    by_policy = await site.caller((await site.access_keys.create("writer")).key.id)
    found = await site.catalog.entries.look_up(site.object_context.meta, LAKE, Identifier(LEVELS, TABLE))
    entry = found.live
    assert entry is not None
    caller = await site.caller(key)

    def decide(authorizer: CatalogAuthorizer, caller: Caller = caller) -> Work:
        return lambda: authorizer.check(caller, found.catalog, Action.GET_TABLE_DATA, namespace=LEVELS, entry=entry)

    async def with_lookup() -> None:
        await site.authorizer.check(
            await site.caller(key), found.catalog, Action.GET_TABLE_DATA, namespace=LEVELS, entry=entry
        )

    each = partial(timed, rounds=rounds, seconds=seconds)
    goal = CACHED_GOAL_SECONDS
    times = [
        await each("decision by compiled grants", decide(site.authorizer), goal_seconds=goal),
        await each("decision by an identity policy", decide(site.authorizer, by_policy), goal_seconds=goal),
        await each("caller lookup by access key, and a decision", with_lookup),
        await each("the same after a role change", with_lookup, before=site.change_roles),
    ]
    async with _decision_point() as url:
        for title, cache_ttl in (("cached", 300.0), ("not cached", 0.0)):
            settings = DecisionsSettings(url=url, mode=DecisionMode.AND, cache_ttl=cache_ttl)
            decisions = wire_authorizer(settings, site.object_context.clock)
            authorizer = CatalogAuthorizer(replace(site.object_context, authorizer=decisions.authorizer))
            try:
                times.append(
                    await each(
                        f"decision by a decision point, {title}",
                        decide(authorizer),
                        goal_seconds=goal if cache_ttl else None,
                    )
                )
            finally:
                await decisions.close()
    return times


async def _policies(site: Site, rounds: int, seconds: float) -> Timed:
    target = TargetName.of(list(LEVELS), TABLE)

    async def find() -> None:
        assert len(await site.catalog.attaching.applicable(ROOT, LAKE, target)) == 4

    return await timed("policies that apply to a table 5 levels deep", find, rounds=rounds, seconds=seconds)


async def _tokens(site: Site, rounds: int, seconds: float) -> list[Timed]:
    user = await site.principals.create_user("service")

    async def create(tx: Transaction) -> NewClientCredentials:
        return await site.credentials.create(tx, user)

    created = await site.object_context.meta.transact(create)

    async def issue() -> IssuedToken:
        client = await site.clients.authenticate(created.client_id, created.secret, "127.0.0.1")
        return await site.issuer.issue(client, "PRINCIPAL_ROLE:ALL")

    token = (await issue()).token
    fresh = [token]

    async def renew() -> None:
        fresh[0] = (await issue()).token

    each = partial(timed, rounds=rounds, seconds=seconds)
    return [
        await each("token issued, secret verified recently", issue),
        await each("token verified, cached", lambda: site.verifier.verify(token)),
        await each("token verified, not cached", lambda: site.verifier.verify(fresh[0]), before=renew),
    ]


@asynccontextmanager
async def _decision_point() -> AsyncIterator[str]:
    """Run a process that allows everything, to measure the request alone."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_decisions, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1/data/lakebed/allow"
    finally:
        process.terminate()
        process.join()


def _serve_decisions(port: Connection) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            assert json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]["action"]
            body = b'{"result": true}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    port.send(server.server_port)
    server.serve_forever()
