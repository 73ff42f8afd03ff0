"""Views of federated catalogs: created, loaded, replaced, registered."""

from __future__ import annotations

from functools import partial

from lakebed.catalog.access.authorization import Action
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Levels, check_identifier
from lakebed.catalog.model import EntryKind
from lakebed.core.json.parsing import parse_body
from lakebed.net.http import HttpResponse
from lakebed.objects.model import Caller

from ..remote.client import RemoteRequest, decode_response
from .authorization import FederatedAuthorization
from .documents import Fields, ForwardedRegistration, encode_document, filter_table, read_commit, read_creation
from .entries import FederatedEntries
from .forwarding import Forwarder
from .model import FederatedCatalog, FederatedEntry


class FederatedViews:
    """The use cases of views. All raise the external catalog's errors."""

    def __init__(self, entries: FederatedEntries, authorization: FederatedAuthorization, forwarder: Forwarder) -> None:
        self._entries = entries
        self._authorization = authorization
        self._forwarder = forwarder

    async def create(self, mutation: Mutation, catalog: FederatedCatalog, levels: Levels, body: bytes) -> Fields:
        """Create a view. Raises AlreadyExists, NoSuchNamespace."""
        name, _, document = await parse_body(read_creation, body)
        view = FederatedEntry(catalog, check_identifier(levels, name), EntryKind.VIEW)
        await self._authorization.check(mutation.caller, view, Action.CREATE_TABLE)
        await self._forwarder.require_endpoint(catalog, "POST /v1/{prefix}/namespaces/{namespace}/views")
        return _response(view, await self._entries.create(mutation, view, document), changes=True)

    async def load(self, caller: Caller, view: FederatedEntry) -> Fields:
        """A view with its metadata. Raises NoSuchView."""
        await self._authorization.check(caller, view, Action.GET_METADATA_LOCATION)
        return await self.replay(view)

    async def replay(self, view: FederatedEntry) -> Fields:
        """A view for a caller that was authorized before and repeats a request. Raises NoSuchView."""
        await self._forwarder.require_endpoint(view.catalog, f"GET {view.endpoint}")
        request = RemoteRequest("GET", await view.path())
        return _response(view, await self._forwarder.read(view.catalog, request, view.status_mapping))

    async def replace(self, mutation: Mutation, view: FederatedEntry, body: bytes) -> Fields:
        """Commit to a view. Raises CommitConflict, NoSuchView."""
        commit = await parse_body(partial(read_commit, identifier=view.identifier), body)
        await self._authorization.check(mutation.caller, view, Action.UPDATE_METADATA_LOCATION)
        await self._forwarder.require_endpoint(view.catalog, f"POST {view.endpoint}")
        response = await self._entries.commit(mutation, view, encode_document(commit.document), creates=False)
        return _response(view, response, changes=True)

    async def register(
        self, mutation: Mutation, catalog: FederatedCatalog, levels: Levels, document: ForwardedRegistration
    ) -> Fields:
        """Register a view's metadata file under a name. Raises AlreadyExists."""
        view = FederatedEntry(catalog, check_identifier(levels, document.name), EntryKind.VIEW)
        return _response(view, await self._entries.register(mutation, view, document), changes=True)


def _response(view: FederatedEntry, response: HttpResponse, *, changes: bool = False) -> Fields:
    fields = decode_response(response, Fields, view.catalog.remote.host, changes=changes)
    return filter_table(fields, with_credentials=False, credentials_path="")
