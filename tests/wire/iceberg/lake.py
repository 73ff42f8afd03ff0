"""The APIs of a server (catalog, admin, management and S3), without a network and with a manual clock."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lakebed.catalog.validation import ValidationLevel
from lakebed.core.access import DEFAULT_ACCOUNT, Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.delegation import AccessDelegation
from lakebed.core.ids import new_deployment_id
from lakebed.core.operations import Operation
from lakebed.core.secrets import Secret
from lakebed.core.settings import FederationSettings
from lakebed.governance import AccessKeys, CredentialLookup, MasterKeys, PolicyAuthorizer, Principals, Sessions
from lakebed.governance.delegation.delegated_accesses import AccessCounter, DelegationTraceWriter
from lakebed.governance.delegation.delegations import DelegationLog
from lakebed.governance.delegation.vending import CredentialVending
from lakebed.governance.listeners import Listener, Listeners
from lakebed.governance.tokens import ClientCredentialStore, SecretHasher
from lakebed.net.http import Http
from lakebed.select.seam import QueryRunner
from lakebed.server.catalog import wire_catalog
from lakebed.server.events.governance_events import INTENT_READERS, GovernanceEvents, wire_governance_events
from lakebed.server.http.api_paths import Api, server_api_paths
from lakebed.server.http.dispatch import ApiDispatcher, BucketLookup, SharedListenerChoice
from lakebed.server.metrics.instruments import access_trace
from lakebed.wire.aws.authentication import SignatureAuthenticator
from lakebed.wire.aws.store_address import StoreAddress
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response, close_stream
from lakebed.wire.http.protocol import Application
from lakebed.wire.json.app import JsonApplication
from lakebed.wire.json.operation_hooks import OperationHooks
from lakebed.wire.management.operations import management_mount
from lakebed.wire.management.services import ManagementServices
from lakebed.wire.s3.app import S3Application
from lakebed.wire.s3.services import S3Services
from lakebed.wire.s3.sts import SecurityTokenService
from tests.catalog.extension_catalog import no_network
from tests.clients.boto import REGION, Keys
from tests.clients.signing import Signer
from tests.objects.stores import DAY_MS, ObjectStore, opened_store

HOST = "lake.example:9000"
DOMAIN = "s3.lake.example"
BASE = "/iceberg/v1"
ROOT_KEYS = Keys("ROOTKEY", "root-secret-key")
DEPLOYMENT = new_deployment_id()
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def document(self) -> Any:  # Any: JSON
        """The parsed body."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """The status and type of an error of the catalog."""
        return self.status, self.document["error"]["type"]


@dataclass(frozen=True, slots=True)
class Lake:
    """A server, and its clients."""

    store: ObjectStore
    clock: ManualClock
    principals: Principals
    access_keys: AccessKeys
    catalog: JsonApplication
    admin: JsonApplication
    management: JsonApplication
    s3: S3Application
    trace: DelegationTraceWriter
    """Writes only on `flush`."""
    governance: GovernanceEvents

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        keys: Keys | None = ROOT_KEYS,
        host: str = HOST,
    ) -> Answer:
        """Send a request, signed with the keys; unsigned without keys."""
        return await _answer(await self.respond(method, path, body, headers, keys=keys, host=host))

    async def respond(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        keys: Keys | None = ROOT_KEYS,
        host: str = HOST,
        may_wait: Callable[[], bool] = lambda: True,
    ) -> Response:
        """Send a request and return the response before its body is read, for streams."""
        sent = dict(headers or {})
        if keys is not None:
            at = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
            url = f"http://{host}{path}"
            sent = Signer(keys, at=at).headers(method, url, sha256(body).hexdigest(), sent)
        parts = urlsplit(path)
        incoming = RequestBody(len(body))
        if body:
            incoming.push(body)
            incoming.finish()
        received = {"host": host, "content-length": str(len(body))} | {
            name.lower(): value for name, value in sent.items()
        }
        request = Request(
            method, parts.path, parts.query, received, incoming, "http", "127.0.0.1", "R1", may_wait=may_wait
        )
        apis: Mapping[Api, Application] = {
            Api.CATALOG: self.catalog,
            Api.ADMIN: self.admin,
            Api.MANAGEMENT: self.management,
            Api.S3: self.s3,
        }
        dispatcher = ApiDispatcher(_choose, apis, BucketLookup(self.store.meta), lambda _: None)
        return await dispatcher(request)

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
        """Call the catalog; `access` is the requested access delegation."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if access is not None:
            sent["x-iceberg-access-delegation"] = access
        body = b"" if document is None else json.dumps(document).encode()
        return await self.send(method, BASE + path, body, sent, keys=keys)

    async def user(self, name: str, *statements: Mapping[str, object]) -> Keys:
        """Create a user with these statements as its only policy."""
        await self.principals.create_user(name)
        if statements:
            document = {"Version": "2012-10-17", "Statement": list(statements)}
            await self.principals.put_policy(name, "own", json.dumps(document).encode())
        created = await self.access_keys.create(name)
        return Keys(created.key.id, created.secret.reveal())

    async def make_lake(self) -> None:
        """Create the table bucket and its namespace."""
        await self.store.bucket("lake")
        await self.call("PUT", "/buckets/lake")
        await self.call("POST", "/lake/namespaces", {"namespace": ["ns"]})

    async def table(self, name: str = "t", *, keys: Keys = ROOT_KEYS, access: str | None = None, **more: Any) -> Answer:
        """Create a table in `ns`."""
        document = {"name": name, "schema": SCHEMA, **{key.replace("_", "-"): value for key, value in more.items()}}
        return await self.call("POST", "/lake/namespaces/ns/tables", document, keys=keys, access=access)


_choose = SharedListenerChoice(server_api_paths(), (DOMAIN,))


def allow(*actions: str, resource: str = "*") -> dict[str, object]:
    """An Allow statement."""
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def keys_in(config: Mapping[str, str]) -> Keys:
    """The vended credentials in a client's settings."""
    return Keys(config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"])


async def _answer(response: Response) -> Answer:
    body = response.body
    for piece in response.files:
        if isinstance(piece, bytes):
            body += piece
        else:
            body += os.pread(piece.descriptor, piece.length, piece.offset)
            os.close(piece.descriptor)
    if response.stream is not None:
        body = b"".join([piece async for piece in response.stream])
        await close_stream(response.stream)
    return Answer(response.status, {name.lower(): value for name, value in response.headers}, body)


def wire_lake(
    store: ObjectStore,
    *,
    ttl_seconds: float = 900,
    endpoint: str | None = None,
    domains: tuple[str, ...] = (DOMAIN,),
    validation: ValidationLevel = ValidationLevel.STANDARD,
    listeners: Sequence[Listener] = (),
    reported_reads: Sequence[Operation] = (),
    http: Http = no_network,
    hosts: tuple[str, ...] = (),
    selects: QueryRunner | None = None,
    access_delegation: AccessDelegation = AccessDelegation.VENDED,
    client_locations: bool = True,
) -> Lake:
    """Create a server on an object store. `http` sends its requests to external catalogs at `hosts`."""
    f, clock = store.object_context, store.clock
    master = MasterKeys({"first": b"1" * 32}, active="first")
    root = Credential(
        ROOT_KEYS.access_key, Secret(ROOT_KEYS.secret_key), root_of(DEFAULT_ACCOUNT, ROOT_KEYS.access_key)
    )
    access_keys = AccessKeys(f.meta, f.outbox, master, clock, root)
    sessions = Sessions(master, access_keys, clock)
    credentials = CredentialLookup(access_keys, sessions)
    authorizer = PolicyAuthorizer(clock)
    delegations, accesses = DelegationLog(f.meta), AccessCounter(f.meta, clock)
    hooks = OperationHooks(Listeners(listeners), f.meta, f.outbox, clock, INTENT_READERS, reported_reads=reported_reads)
    governance = replace(wire_governance_events(f, master), hooks=hooks)
    catalog = wire_catalog(
        f,
        credentials,
        CredentialVending(sessions, delegations, ttl_seconds=ttl_seconds),
        StoreAddress(REGION, endpoint, domains),
        lambda *_: None,
        master,
        http,
        deployment=DEPLOYMENT,
        validation=validation,
        governance=governance,
        federation=FederationSettings(hosts=hosts),
        access_delegation=access_delegation,
        client_locations=client_locations,
    )
    s3 = S3Application(
        S3Services.on(
            f, SignatureAuthenticator(credentials, clock), policies=authorizer, lifecycle_day_ms=DAY_MS, selects=selects
        ),
        SecurityTokenService(sessions, f, default_seconds=3600, max_seconds=43_200),
        clock=clock,
        domains=domains,
        trace=access_trace(accesses),
        around_deletion=hooks.around_catalog_deletion,
        on_refusal=governance.refusal_recorder("s3"),
    )
    principals = Principals(f.meta, f.outbox, clock, root.principal)
    clients = ClientCredentialStore(
        f.meta,
        f.outbox,
        SecretHasher(passes=1, memory_kib=8),
        clock,
        root.principal,
        root.access_key_id,
    )
    management = JsonApplication(
        catalog.shared,
        [
            management_mount().on(
                ManagementServices.on(
                    f,
                    root,
                    clients,
                    catalog.jobs.copies.discard_orphans,
                    catalog.federation,
                    catalog.storage.profiles,
                )
            )
        ],
        on_refusal=governance.refusal_recorder("management"),
    )
    trace = DelegationTraceWriter(delegations, accesses)
    return Lake(
        store, clock, principals, access_keys, catalog.application, catalog.admin, management, s3, trace, governance
    )


@asynccontextmanager
async def opened_lake(
    folder: Path,
    *,
    ttl_seconds: float = 900,
    endpoint: str | None = None,
    domains: tuple[str, ...] = (DOMAIN,),
    listeners: Sequence[Listener] = (),
    reported_reads: Sequence[Operation] = (),
    hosts: tuple[str, ...] = (),
    access_delegation: AccessDelegation = AccessDelegation.VENDED,
    client_locations: bool = True,
) -> AsyncIterator[Lake]:
    """A server with a namespace `ns` in the table bucket `lake`."""
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        lake = wire_lake(
            store,
            ttl_seconds=ttl_seconds,
            endpoint=endpoint,
            domains=domains,
            listeners=listeners,
            reported_reads=reported_reads,
            hosts=hosts,
            access_delegation=access_delegation,
            client_locations=client_locations,
        )
        await lake.make_lake()
        yield lake
