"""Requests made up from the contract's document, sent to a running server, and their answers held against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit
from uuid import UUID

import requests
import schemathesis
import yaml  # type: ignore[import-untyped]  # has no types
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests.auth import AuthBase
from schemathesis import APIOperation, Case, CheckContext, GenerationMode, Response
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fixtures.raw_http import Signer
from tests.fixtures.server import RunningServer
from tests.wire.iceberg.lake import BASE, SCHEMA

Json = Any
"""Documents as the contract has them."""

AnyCase = Case[Any]
"""A made-up request."""

Check = Callable[[CheckContext, Response, AnyCase], bool | None]
"""Raises what is wrong with an answer."""

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

NAMES: Final = {"prefix": "lake", "namespace": "ns", "table": "t", "view": "v"}
"""What is there, by its name in paths."""

NAMES_OF: Final[Mapping[str, Mapping[str, str]]] = {"dropNamespace": NAMES | {"namespace": "empty"}}
"""The same for operations that want something else."""

_VIEW_VERSION: Final[Json] = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}
_PLAIN_CHANGE: Final[Json] = {"action": "set-properties", "updates": {"a": "1"}}

GOOD: Final[Mapping[str, Json]] = {
    "createNamespace": {"namespace": ["made"], "properties": {}},
    "updateProperties": {"updates": {"a": "1"}, "removals": []},
    "createTable": {"name": "made", "schema": SCHEMA},
    "updateTable": {"requirements": [], "updates": [_PLAIN_CHANGE]},
    "renameTable": {
        "source": {"namespace": ["ns"], "name": "t"},
        "destination": {"namespace": ["ns"], "name": "made"},
    },
    "planTableScan": {"filter": True, "case-sensitive": True},
    "reportMetrics": {
        "report-type": "scan-report",
        "table-name": "t",
        "snapshot-id": 1,
        "filter": True,
        "schema-id": 0,
        "projected-field-ids": [],
        "projected-field-names": [],
        "metrics": {},
    },
    "commitTransaction": {
        "table-changes": [
            {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": [_PLAIN_CHANGE]}
        ]
    },
    "createView": {"name": "made", "schema": SCHEMA, "properties": {}, "view-version": _VIEW_VERSION},
    "replaceView": {"requirements": [], "updates": [_PLAIN_CHANGE]},
    "renameView": {
        "source": {"namespace": ["ns"], "name": "v"},
        "destination": {"namespace": ["ns"], "name": "made"},
    },
}
"""Bodies that are taken, by operation: made-up parts are grafted on them, or few requests would get past a name."""


class Signed(AuthBase):
    """Signs what `requests` sends."""

    def __init__(self, host: str) -> None:
        self._signer = Signer(host)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(request.url or "")
        if isinstance(request.body, str):
            request.body = request.body.encode()
        body = request.body if isinstance(request.body, bytes) else b""
        for made_up in [name for name in request.headers if str(name).lower().startswith("x-amz-")]:
            # What nobody signed is refused before anything of the contract is looked at.
            del request.headers[made_up]
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        headers = self._signer.headers(str(request.method), str(target), None, body)
        headers.pop("content-length", None)  # `requests` has written it
        request.headers.update(headers)
        return request


def read_document(document: Path) -> Json:
    """A contract's document."""
    return parse_document(document.read_text())


def parse_document(text: str) -> Json:
    """A contract's document, from its text."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Contract:
    """The document, and a session with the server that is held against it."""

    names: ClassVar[Mapping[str, str]] = NAMES
    names_of: ClassVar[Mapping[str, Mapping[str, str]]] = NAMES_OF
    good: ClassVar[Mapping[str, Json]] = GOOD
    plain_queries: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """What the plain request of an operation asks for, where that matters."""

    def __init__(self, document: Json, server: RunningServer) -> None:
        _wrap_errors(document)
        self._schema = schemathesis.openapi.from_dict(document)
        self._operations: dict[str, APIOperation[Any, Any, Any, Any]] = {}
        for found in self._schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            self._operations[operation.definition.raw["operationId"]] = operation
        self.base = f"{server.endpoint}{BASE.removesuffix('/v1')}"
        self.session = requests.Session()
        self.session.auth = Signed(urlsplit(server.endpoint).netloc)
        self._is_disturbed = True
        self._put(f"{server.endpoint}/lake")
        self._put(f"{self.base}/v1/buckets/lake")

    def close(self) -> None:
        self.session.close()

    def checks(self) -> Sequence[Check]:
        """What an answer is held against."""
        return CHECKS

    def hold(self, name: str, mode: GenerationMode, examples: int, *, is_random: bool) -> Counter[int]:
        """Send made-up requests of an operation; how often each status came. Raises what does not conform."""
        operation = self._operations[name]
        names = self.names_of.get(name, self.names)
        statuses: Counter[int] = Counter()

        @settings(
            max_examples=examples,
            derandomize=not is_random,
            database=None,
            deadline=None,
            phases=[Phase.generate] if not is_random else [Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode), st.randoms(use_true_random=False))
        def send(case: AnyCase, random: Random) -> None:
            # All is drawn before anything is sent, and whatever was answered before: Hypothesis counts on the same
            # draws when it repeats a request that failed, and would complain of others instead of telling the failure.
            for part, there in names.items():
                if part in case.path_parameters and random.random() < 0.85:
                    case.path_parameters[part] = there
            if mode is GenerationMode.POSITIVE:
                if IDEMPOTENCY_KEY in case.headers:
                    # A key is good for one request, and made-up ones are few.
                    case.headers[IDEMPOTENCY_KEY] = str(UUID(int=random.getrandbits(128)))
                if name in self.good:
                    case.body = _grafted(self.good[name], case.body, random)
            statuses[self._send(case)] += 1

        if mode is GenerationMode.POSITIVE and (plain := self._plain(operation, name)) is not None:
            # What is made up may be refused however often it is tried.
            statuses[self._send(plain)] += 1
        send()
        return statuses

    def _plain(self, operation: APIOperation[Any, Any, Any, Any], name: str) -> AnyCase | None:
        """A request that is there to be taken; None for an operation on what is not there by itself."""
        names = self.names_of.get(name, self.names)
        wanted = [parameter.name for parameter in operation.path_parameters]
        if not names.keys() >= set(wanted):
            return None
        body = {"body": self.good[name], "media_type": "application/json"} if name in self.good else {}
        query = dict(self.plain_queries.get(name, {}))
        return operation.Case(path_parameters={part: names[part] for part in wanted}, query=query, **body)

    def _send(self, case: AnyCase) -> int:
        if self._is_disturbed:
            self.restore()
        self._is_disturbed = True  # unless the answer says otherwise
        response = case.call(base_url=self.base, session=self.session)
        self._is_disturbed = response.status_code < 300 and case.method not in ("GET", "HEAD")
        case.validate_response(response, checks=list(self.checks()))
        return response.status_code

    def _put(self, address: str) -> None:
        assert self.session.put(address).status_code == 200

    def _remove(self, levels: list[str]) -> None:
        """Drop a namespace, and those that were made inside it."""
        name = quote("\x1f".join(levels), safe="")
        found = self.session.get(f"{self.base}/v1/lake/namespaces?parent={name}")
        for inner in found.json().get("namespaces", ()):
            self._remove(inner)
        assert self.session.delete(f"{self.base}/v1/lake/namespaces/{name}").status_code in (204, 404)

    def restore(self) -> None:
        """Bring back what the last request took away, and take away what it made."""
        home = f"{self.base}/v1/lake"
        for made in ("/namespaces/ns/tables/made", "/namespaces/ns/views/made"):
            assert self.session.delete(home + made).status_code in (204, 404)
        self._remove(["made"])
        wanted: tuple[tuple[str, Json], ...] = (
            ("/namespaces", {"namespace": ["ns"]}),
            ("/namespaces", {"namespace": ["empty"]}),
            ("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}),
            ("/namespaces/ns/views", {**GOOD["createView"], "name": "v"}),
        )
        for path, document in wanted:
            assert self.session.post(home + path, json=document).status_code in (200, 409)


def documented_status(ctx: CheckContext, response: Response, case: AnyCase) -> bool | None:
    """The status is one that the contract lists for the operation, or one that it forgot to.

    Every operation on a warehouse finds that there is none of that name; not all of them list 404. The signer's
    part of the contract knows no way to say that a provider is not supported.
    """
    kind = response.json()["error"]["type"] if response.status_code >= 400 and case.method != "HEAD" else ""
    if (response.status_code, kind) == (404, "NoSuchWarehouseException"):
        return None
    if (response.status_code, kind) == (406, "UnsupportedOperationException"):
        return None
    return status_code_conformance(ctx, response, case)


CHECKS: Final = (
    not_a_server_error,
    documented_status,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)


def _wrap_errors(document: Json) -> None:
    """Some errors are described without the envelope that all servers send and all clients read.

    Those of operations on views are, and that something is not supported, whose example has the envelope.
    """
    operations = (operation for path in document["paths"].values() for operation in path.values())
    described = [operation.get("responses", {}) for operation in operations if isinstance(operation, dict)]
    for responses in (*described, document["components"].get("responses", {})):
        for response in responses.values():
            for content in response.get("content", {}).values():
                if content["schema"].get("$ref") == "#/components/schemas/ErrorModel":
                    content["schema"] = {"$ref": "#/components/schemas/IcebergErrorResponse"}


def _grafted(good: Json, made_up: Json, random: Random) -> Json:
    """A body that is taken, with some of its parts made up; lists of changes get one that is."""
    if isinstance(good, dict) and isinstance(made_up, dict):
        chosen = random.sample(list(made_up), min(len(made_up), random.choice((1, 2, 1, 0))))
        return good | {part: _grafted(good.get(part), made_up[part], random) for part in chosen}
    if isinstance(good, list) and isinstance(made_up, list) and made_up:
        one = random.choice(made_up)
        return [*good[:-1], _grafted(good[-1], one, random)] if good and random.random() < 0.5 else [*good, one]
    return made_up
