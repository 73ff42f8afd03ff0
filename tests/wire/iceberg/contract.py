"""Conformance of a running server to the Iceberg REST OpenAPI specification, with generated requests."""

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

from tests.catalog.harness import VIEW_VERSION
from tests.fixtures.raw_http import Signer
from tests.fixtures.server import RunningServer
from tests.wire.iceberg.lake import BASE, SCHEMA

Json = Any
"""JSON and YAML documents."""

AnyCase = Case[Any]
"""A generated request."""

Check = Callable[[CheckContext, Response, AnyCase], bool | None]
"""Raises for a response that does not conform."""

IDEMPOTENCY_KEY: Final = "Idempotency-Key"

NAMES: Final = {"prefix": "lake", "namespace": "ns", "table": "t", "view": "v"}
"""Existing entities, by path parameter."""

NAMES_OF: Final[Mapping[str, Mapping[str, str]]] = {"dropNamespace": NAMES | {"namespace": "empty"}}
"""The same for operations that need other entities."""

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
    "createView": {"name": "made", "schema": SCHEMA, "properties": {}, "view-version": VIEW_VERSION},
    "replaceView": {"requirements": [], "updates": [_PLAIN_CHANGE]},
    "renameView": {
        "source": {"namespace": ["ns"], "name": "v"},
        "destination": {"namespace": ["ns"], "name": "made"},
    },
}
"""Valid bodies by operation. Generated parts are merged into them; fully generated bodies rarely have valid names."""


class Signed(AuthBase):
    """Signs what `requests` sends."""

    def __init__(self, host: str) -> None:
        self._signer = Signer(host)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        parts = urlsplit(request.url or "")
        if isinstance(request.body, str):
            request.body = request.body.encode()
        body = request.body if isinstance(request.body, bytes) else b""
        for generated in [name for name in request.headers if str(name).lower().startswith("x-amz-")]:
            # Requests with unsigned headers are refused before the operation is called.
            del request.headers[generated]
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        headers = self._signer.headers(str(request.method), str(target), None, body)
        headers.pop("content-length", None)  # set by `requests`
        request.headers.update(headers)
        return request


def read_document(document: Path) -> Json:
    """Read an OpenAPI specification."""
    return parse_document(document.read_text())


def parse_document(text: str) -> Json:
    """Parse an OpenAPI specification."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


class Contract:
    """A specification, and a session with the server under test."""

    names: ClassVar[Mapping[str, str]] = NAMES
    names_of: ClassVar[Mapping[str, Mapping[str, str]]] = NAMES_OF
    good: ClassVar[Mapping[str, Json]] = GOOD
    plain_queries: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """The query of an operation's plain request, if it needs one."""

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
        self._needs_restore = True
        self._put(f"{server.endpoint}/lake")
        self._put(f"{self.base}/v1/buckets/lake")

    def close(self) -> None:
        self.session.close()

    def checks(self) -> Sequence[Check]:
        """The checks of responses."""
        return CHECKS

    def check(self, name: str, mode: GenerationMode, examples: int, *, is_random: bool) -> Counter[int]:
        """Send generated requests of an operation and count the statuses. Raises for a nonconforming response."""
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
            # All random values are drawn before sending, independently of earlier responses: Hypothesis repeats a
            # failed request with the same draws, and would report a difference instead of the failure.
            for part, existing in names.items():
                if part in case.path_parameters and random.random() < 0.85:
                    case.path_parameters[part] = existing
            if mode is GenerationMode.POSITIVE:
                if IDEMPOTENCY_KEY in case.headers:
                    # A key is valid for one request, and generated keys repeat.
                    case.headers[IDEMPOTENCY_KEY] = str(UUID(int=random.getrandbits(128)))
                if name in self.good:
                    case.body = _merged(self.good[name], case.body, random)
            statuses[self._send(case)] += 1

        if mode is GenerationMode.POSITIVE and (plain := self._plain(operation, name)) is not None:
            # Generated requests may all be refused.
            statuses[self._send(plain)] += 1
        send()
        return statuses

    def _plain(self, operation: APIOperation[Any, Any, Any, Any], name: str) -> AnyCase | None:
        """A valid request; None for an operation on entities that do not exist."""
        names = self.names_of.get(name, self.names)
        parameters = [parameter.name for parameter in operation.path_parameters]
        if not names.keys() >= set(parameters):
            return None
        body = {"body": self.good[name], "media_type": "application/json"} if name in self.good else {}
        query = dict(self.plain_queries.get(name, {}))
        return operation.Case(path_parameters={part: names[part] for part in parameters}, query=query, **body)

    def _send(self, case: AnyCase) -> int:
        if self._needs_restore:
            self.restore()
        self._needs_restore = True  # also if the call raises
        response = case.call(base_url=self.base, session=self.session)
        self._needs_restore = response.status_code < 300 and case.method not in ("GET", "HEAD")
        case.validate_response(response, checks=list(self.checks()))
        return response.status_code

    def _put(self, address: str) -> None:
        assert self.session.put(address).status_code == 200

    def _remove(self, levels: list[str]) -> None:
        """Drop a namespace and its children."""
        name = quote("\x1f".join(levels), safe="")
        found = self.session.get(f"{self.base}/v1/lake/namespaces?parent={name}")
        for inner in found.json().get("namespaces", ()):
            self._remove(inner)
        assert self.session.delete(f"{self.base}/v1/lake/namespaces/{name}").status_code in (204, 404)

    def restore(self) -> None:
        """Recreate the entities, and drop the created ones."""
        base = f"{self.base}/v1/lake"
        for created in ("/namespaces/ns/tables/made", "/namespaces/ns/views/made"):
            assert self.session.delete(base + created).status_code in (204, 404)
        self._remove(["made"])
        entities: tuple[tuple[str, Json], ...] = (
            ("/namespaces", {"namespace": ["ns"]}),
            ("/namespaces", {"namespace": ["empty"]}),
            ("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}),
            ("/namespaces/ns/views", {**GOOD["createView"], "name": "v"}),
        )
        for path, document in entities:
            assert self.session.post(base + path, json=document).status_code in (200, 409)


def documented_status(ctx: CheckContext, response: Response, case: AnyCase) -> bool | None:
    """The status is in the specification of the operation, or is one that the specification omits.

    Every operation on a warehouse can return 404 for an unknown one; not all of them list it. The signing
    specification has no status for an unsupported provider.
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
    """Add the envelope of errors where the specification omits it, although servers send it and clients expect it.

    It is missing in the errors of view operations, and in the error for unsupported operations, whose example has it.
    """
    operations = (operation for path in document["paths"].values() for operation in path.values())
    described = [operation.get("responses", {}) for operation in operations if isinstance(operation, dict)]
    for responses in (*described, document["components"].get("responses", {})):
        for response in responses.values():
            for content in response.get("content", {}).values():
                if content["schema"].get("$ref") == "#/components/schemas/ErrorModel":
                    content["schema"] = {"$ref": "#/components/schemas/IcebergErrorResponse"}


def _merged(good: Json, generated: Json, random: Random) -> Json:
    """A valid body with some generated parts; lists of changes get a generated element."""
    if isinstance(good, dict) and isinstance(generated, dict):
        chosen = random.sample(list(generated), min(len(generated), random.choice((1, 2, 1, 0))))
        return good | {part: _merged(good.get(part), generated[part], random) for part in chosen}
    if isinstance(good, list) and isinstance(generated, list) and generated:
        one = random.choice(generated)
        return [*good[:-1], _merged(good[-1], one, random)] if good and random.random() < 0.5 else [*good, one]
    return generated
