"""The token endpoint, and the APIs that accept its tokens, without a network and with a manual clock."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lakebed.core.access import DEFAULT_ACCOUNT, Credential, root_of
from lakebed.core.clock import ManualClock
from lakebed.core.ids import new_deployment_id
from lakebed.core.secrets import Secret
from lakebed.core.settings import Settings
from lakebed.governance import AccessKeys, CredentialLookup, MasterKeys, Principals, Sessions
from lakebed.governance.delegation.delegations import DelegationLog
from lakebed.governance.delegation.vending import CredentialVending
from lakebed.governance.tokens import NewClientCredentials, SessionPrincipals
from lakebed.meta.seam import Transaction
from lakebed.server.catalog import CatalogServices, wire_catalog
from lakebed.server.http.api_paths import Api, server_api_paths
from lakebed.server.http.dispatch import CatalogListenerChoice
from lakebed.server.tokens import TokenServices, wire_tokens
from lakebed.wire.aws.store_address import StoreAddress
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response
from lakebed.wire.http.protocol import Application
from tests.catalog.extension_catalog import no_network
from tests.clients.boto import REGION
from tests.objects.stores import ObjectStore, opened_store

ROOT_ID, ROOT_SECRET = "ROOTKEY", "root-secret-key"
TOKENS = "/iceberg/v1/oauth/tokens"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def document(self) -> Any:  # Any: JSON
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str]:
        """The status and code of an error of the token endpoint."""
        assert self.document.keys() == {"error", "error_description"}
        return self.status, self.document["error"]


@dataclass(frozen=True, slots=True)
class Site:
    """A server with a token endpoint."""

    store: ObjectStore
    clock: ManualClock
    principals: Principals
    access_keys: AccessKeys
    tokens: TokenServices
    catalog: CatalogServices

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        query: str = "",
        peer: str = "192.0.2.1",
    ) -> Answer:
        """Send a request."""
        incoming = RequestBody(len(body))
        if body:
            incoming.push(body)
            incoming.finish()
        received = {"host": "lake.example", **{name.lower(): value for name, value in (headers or {}).items()}}
        request = Request(method, path, query, received, incoming, "http", peer, "R1")
        apis: Mapping[Api, Application] = {
            Api.TOKENS: self.tokens.application,
            Api.CATALOG: self.catalog.application,
            Api.ADMIN: self.catalog.admin,
        }
        return _answer(await apis[CatalogListenerChoice(server_api_paths())(request).api](request))

    async def request_token(
        self,
        fields: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        path: str = TOKENS,
        peer: str = "192.0.2.1",
    ) -> Answer:
        """Send a token request."""
        return await self.send(
            "POST", path, urlencode(fields).encode(), {"content-type": FORM, **(headers or {})}, peer=peer
        )

    async def token(self, client_id: str = ROOT_ID, secret: str = ROOT_SECRET, **more: str) -> str:
        """A token for client credentials."""
        answer = await self.request_token(
            {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret, **more}
        )
        assert answer.status == 200, answer.body
        token: str = answer.document["access_token"]
        return token

    async def call(self, method: str, path: str, token: str, document: object = None, **headers: str) -> Answer:
        """Send a request with a token."""
        body = b"" if document is None else json.dumps(document).encode()
        sent = {"authorization": f"Bearer {token}"} | {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.send(method, path, body, sent)

    async def client(self, name: str, *actions: str) -> NewClientCredentials:
        """Create a user with client credentials and permissions for these actions."""
        user = await self.principals.create_user(name)
        if actions:
            statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
            document = {"Version": "2012-10-17", "Statement": [statement]}
            await self.principals.put_policy(name, "own", json.dumps(document).encode())

        async def work(tx: Transaction) -> NewClientCredentials:
            return await self.tokens.clients.create(tx, user)

        return await self.store.object_context.meta.transact(work)


def _answer(response: Response) -> Answer:
    return Answer(response.status, {name.lower(): value for name, value in response.headers}, response.body)


@asynccontextmanager
async def opened_site(folder: Path, settings: Settings | None = None) -> AsyncIterator[Site]:
    """A server with a table bucket `lake`."""
    async with opened_store(f"sqlite:{folder / 'meta.db'}", "memory", folder, ManualClock()) as store:
        f, clock = store.object_context, store.clock
        master = MasterKeys({"first": b"1" * 32}, active="first")
        root = Credential(ROOT_ID, Secret(ROOT_SECRET), root_of(DEFAULT_ACCOUNT, ROOT_ID))
        access_keys = AccessKeys(f.meta, f.outbox, master, clock, root)
        sessions = Sessions(master, SessionPrincipals(f.meta, access_keys), clock)
        tokens = wire_tokens(settings or Settings(), f.meta, f.outbox, master, clock, access_keys, root)
        catalog = wire_catalog(
            f,
            CredentialLookup(access_keys, sessions),
            CredentialVending(sessions, DelegationLog(f.meta), ttl_seconds=900),
            StoreAddress(REGION, None, ()),
            lambda *_: None,
            master,
            no_network,
            deployment=new_deployment_id(),
            bearers=tokens.bearers,
        )
        principals = Principals(f.meta, f.outbox, clock, root.principal)
        site = Site(store, clock, principals, access_keys, tokens, catalog)
        await store.bucket("lake")
        if settings is None:
            assert (await site.call("PUT", "/iceberg/v1/buckets/lake", await site.token())).status == 200
        yield site
