"""Labels: get, change and find the tags and owners of catalogs, tables, principals and other securables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lakebed.core.errors import InvalidInput
from lakebed.core.unset import UNSET
from lakebed.governance.labels import (
    LabelChange,
    LabelKind,
    LabelOwner,
    LabelQuery,
    Labels,
    LabelSubject,
    OwnerKind,
    parse_owner,
    parse_tag_filter,
)
from lakebed.governance.labels.model import MAX_FILTERS
from lakebed.wire.http.message import Response
from lakebed.wire.json.request import JsonRequest, split_namespace
from lakebed.wire.json.responses import ok
from lakebed.wire.json.routing import Handler, Route

from .. import paging
from ..queries import all_values, check_parameters, choice_parameter
from ..services import AdminServices

_pages = paging.CursorPages("labels", str)

Name = Annotated[str, Meta(min_length=1, max_length=256)]


class OwnerDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An owner."""

    type: OwnerKind
    name: Name


class ChangeDocument(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a change. Absent fields stay unchanged; owner null removes the owner."""

    set_tags: dict[str, str] = {}
    remove_tags: list[str] = []
    owner: OwnerDocument | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def change(self) -> LabelChange:
        """The requested change."""
        owner = self.owner
        if owner is msgspec.UNSET:
            return LabelChange(self.set_tags, self.remove_tags, UNSET)
        return LabelChange(
            self.set_tags, self.remove_tags, None if owner is None else LabelOwner(owner.type, owner.name)
        )


async def find_labelled(services: AdminServices, request: JsonRequest) -> Response:
    """Find entities by tags, owner, kind and catalog."""
    http = request.http
    check_parameters(http, ("tag", "owner", "kind", "catalog", *paging.PARAMETERS), repeatable=("tag",))
    tags = [parse_tag_filter(text) for text in all_values(http, "tag")]
    if len(tags) > MAX_FILTERS:
        raise InvalidInput(f"too many tag parameters. found={len(tags)} maximum={MAX_FILTERS}", argument="tag")
    owner = http.query.get("owner")
    query = LabelQuery(
        tags,
        None if owner is None else parse_owner(owner),
        choice_parameter(http, "kind", LabelKind),
        http.query.get("catalog", ""),
    )
    page = _pages.read(http, str(query))
    found = await services.labels.find(request.caller, query, after=page.after or "", limit=page.limit)
    labelled = [labels_document(one.subject, one.labels) for one in found.found]
    return page.response({"labelled": labelled}, found.last_key if found.truncated else None)


def labels_document(subject: LabelSubject, labels: Labels) -> dict[str, Any]:
    """An entity with its labels, as JSON."""
    document: dict[str, Any] = {"kind": subject.kind}
    if subject.catalog:
        document["catalog"] = subject.catalog
    if subject.namespace:
        document["namespace"] = subject.namespace
    if subject.name:
        document["name"] = subject.name
    owner = labels.owner
    return document | {
        "tags": labels.tags,
        "owner": None if owner is None else {"type": owner.kind, "name": owner.name},
    }


def _subject(kind: LabelKind, request: JsonRequest) -> LabelSubject:
    names = request.names
    namespace = split_namespace(names["namespace"]) if "namespace" in names else ()
    return LabelSubject(kind, names.get("warehouse", ""), namespace, names.get("name", ""))


def _getting(kind: LabelKind) -> Handler[AdminServices]:
    async def get_labels(services: AdminServices, request: JsonRequest) -> Response:
        check_parameters(request.http, ())
        subject = _subject(kind, request)
        return ok(labels_document(subject, await services.labels.get(request.caller, subject)))

    return get_labels


def _changing(kind: LabelKind) -> Handler[AdminServices]:
    async def change_labels(services: AdminServices, request: JsonRequest) -> Response:
        check_parameters(request.http, ())
        change = (await request.document(ChangeDocument)).change
        subject = _subject(kind, request)
        return ok(labels_document(subject, await services.labels.change(request.caller, subject, change)))

    return change_labels


_PATHS = {
    LabelKind.CATALOG: "/{warehouse}",
    LabelKind.NAMESPACE: "/{warehouse}/{namespace}",
    LabelKind.TABLE: "/{warehouse}/{namespace}/{name}",
    LabelKind.VIEW: "/{warehouse}/{namespace}/{name}",
    LabelKind.GENERIC_TABLE: "/{warehouse}/{namespace}/{name}",
    LabelKind.POLICY: "/{warehouse}/{namespace}/{name}",
    LabelKind.CATALOG_ROLE: "/{warehouse}/{name}",
    LabelKind.PRINCIPAL: "/{name}",
    LabelKind.PRINCIPAL_ROLE: "/{name}",
}
"""Path parameters of each kind."""


def _routes() -> Iterator[Route[AdminServices]]:
    yield Route("findLabelled", "GET", "/v1/labels", find_labelled, is_standard=False)
    for kind, parameters in _PATHS.items():
        noun = "".join(word.capitalize() for word in kind.split("-"))
        path = f"/v1/labels/{kind}{parameters}"
        yield Route(f"get{noun}Labels", "GET", path, _getting(kind), is_standard=False)
        yield Route(f"change{noun}Labels", "PATCH", path, _changing(kind), is_standard=False)


ROUTES = tuple(_routes())
