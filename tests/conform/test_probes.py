"""Each probe against scripted responses: expected ones pass, and each wrong one fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lakebed.conform import probes
from lakebed.conform.expectations import NotConforming
from lakebed.conform.options import ConformTarget
from lakebed.conform.rest import CatalogCalls, ProbeResponse

from .test_options import target

TABLE = "lake/namespaces/ns/tables/t"
Responses = dict[str, tuple[int, Any]]  # Any: JSON


class Scripted(CatalogCalls):
    """Responds from a table by request. A list is a sequence of responses, whose last one repeats."""

    def __init__(self, responses: Responses) -> None:
        self._target = made_target()
        self.responses = responses
        self.requests: list[str] = []

    def send(
        self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None
    ) -> ProbeResponse:
        request = f"{method} {path}" + ("?" + query["pageToken"] if query else "")
        if method == "DELETE" and isinstance(body, dict) and body.get("force"):
            request += " force"
        self.requests.append(request)
        status, document = self.responses.get(request, (404, {"error": {"message": f"no response to {request}"}}))
        if isinstance(document, list):
            document = document.pop(0) if len(document) > 1 else document[0]
        return ProbeResponse(status, json.dumps(document))


def made_target() -> ConformTarget:
    return target("--bucket", "lake", "--namespace", "ns", "--table", "t")


def identifiers(*names: str, token: str | None = None) -> dict[str, Any]:
    return {"identifiers": [{"namespace": ["x"], "name": name} for name in names], "next-page-token": token}


def load() -> Responses:
    return {f"GET {TABLE}": (200, {"metadata-location": "s3://m", "metadata": {"current-snapshot-id": 7}})}


def pointer() -> Responses:
    return {f"GET {TABLE}/metadata-location": (200, {"metadata-location": "s3://m", "version-token": "v"})}


def references() -> Responses:
    one = f"{TABLE}/refs/conform_probe"
    return {
        f"PUT {one}": (200, {}),
        f"GET {TABLE}/refs": (200, [{"refs": {"conform_probe": {}}}, {"refs": {}}]),
        f"DELETE {one}": (400, {"error": {"message": "Force is required"}}),
        f"DELETE {one} force": (200, {}),
    }


def view() -> Responses:
    views = "lake/namespaces/ns/views"
    return {
        f"POST {views}": (200, {}),
        f"GET {views}": (200, identifiers("t_conform_view")),
        f"GET {views}/t_conform_view": (200, {"metadata-location": "s3://v"}),
        f"DELETE {views}/t_conform_view": (204, {}),
    }


def views_in_pages() -> Responses:
    space = "lake/namespaces/ns_views"
    return {
        "POST lake/namespaces": (200, {}),
        f"POST {space}/views": (200, {}),
        f"GET {space}/views": (200, identifiers("t_first", "t_second")),
        f"GET {space}/views?": (200, identifiers("t_first", token="more")),
        f"GET {space}/views?more": (200, identifiers("t_second")),
        f"GET {space}/views/t_first": (200, {"metadata-location": "s3://v"}),
        f"GET {space}/views/t_second": (200, {"metadata-location": "s3://v"}),
        f"DELETE {space}/views/t_first": (204, {}),
        f"DELETE {space}/views/t_second": (204, {}),
        f"DELETE {space}": (204, {}),
    }


def maintenance() -> Responses:
    base = f"{TABLE}/maintenance"
    report = {"job": {"job-id": "j", "job_id": "j", "status": "SUCCESSFUL"}, "audit-events": [{"action": "PLANNED"}]}
    return {
        f"PUT {base}/config": (200, {}),
        f"GET {base}/config": (200, {"version": 1}),
        f"POST {base}/metadata": (200, report),
        f"GET {base}/jobs/j": (200, report),
        f"POST {base}/jobs/j/quarantine": (200, {"action": "INSPECT"}),
        f"POST {base}/worker/run": (200, {"job": {"status": "DISABLED"}}),
    }


def scheduler() -> Responses:
    base = f"{TABLE}/maintenance"
    job = {"status": "QUEUED", "scheduler-id": "lakebed-conform"}
    return {
        f"PUT {base}/config": (200, {}),
        f"GET {base}/scheduler": (200, {"status": "READY", "audit_timeline": []}),
        f"POST {base}/scheduler/run": (200, {"report": {"job": job}, "scheduler": {"status": "QUEUED"}}),
        f"POST {base}/worker/run": (200, {"job": {"status": "SUCCESSFUL"}, "audit-events": []}),
    }


def diagnostics() -> Responses:
    return {f"GET {TABLE}/catalog/diagnostics": (200, {"recovery_status": "HEALTHY"})}


LOADED = load()[f"GET {TABLE}"][1]

PROBES: dict[str, tuple[Callable[[Scripted], object], Callable[[], Responses]]] = {
    "load": (probes.probe_load, load),
    "pointer": (lambda calls: probes.probe_metadata_location(calls, LOADED), pointer),
    "references": (lambda calls: probes.probe_references(calls, 7), references),
    "view": (lambda calls: probes.probe_view(calls, made_target()), view),
    "views": (lambda calls: probes.probe_views_in_pages(calls, made_target()), views_in_pages),
    "maintenance": (probes.probe_maintenance, maintenance),
    "scheduler": (probes.probe_scheduler, scheduler),
    "diagnostics": (probes.probe_diagnostics, diagnostics),
}


@pytest.mark.parametrize("name", PROBES)
def test_probe_passes_on_expected_responses_and_sends_every_request(name: str) -> None:
    probe, responses = PROBES[name]
    calls = Scripted(responses())
    probe(calls)
    assert set(calls.requests) == set(responses())


@pytest.mark.parametrize(
    ("name", "call"), [(name, call) for name, (_, responses) in PROBES.items() for call in responses()]
)
def test_missing_route_fails_the_probe(name: str, call: str) -> None:
    probe, responses = PROBES[name]
    left = responses()
    del left[call]
    with pytest.raises(NotConforming):
        probe(Scripted(left))


@pytest.mark.parametrize(
    ("name", "call", "wrong"),
    [
        ("load", f"GET {TABLE}", (200, {"metadata-location": "s3://m", "metadata": {}})),
        ("load", f"GET {TABLE}", (200, {"metadata-location": "s3://m", "metadata": {"current-snapshot-id": "7"}})),
        ("load", f"GET {TABLE}", (200, {"metadata": {"current-snapshot-id": 7}})),
        ("load", f"GET {TABLE}", (200, "no object")),
        (
            "pointer",
            f"GET {TABLE}/metadata-location",
            (200, {"metadata-location": "s3://other", "version-token": "v"}),
        ),
        ("pointer", f"GET {TABLE}/metadata-location", (200, {"metadata-location": "s3://m", "version-token": ""})),
        ("references", f"DELETE {TABLE}/refs/conform_probe", (409, {"error": {"message": "force is required"}})),
        ("references", f"DELETE {TABLE}/refs/conform_probe", (400, {"error": {"message": "no"}})),
        ("references", f"GET {TABLE}/refs", (200, {"refs": {"conform_probe": {}}})),
        ("references", f"GET {TABLE}/refs", (200, {"refs": {}})),
        ("view", "GET lake/namespaces/ns/views", (200, identifiers("other"))),
        ("views", "GET lake/namespaces/ns_views/views", (200, identifiers("t_first", "t_second", token="more"))),
        (
            "views",
            "GET lake/namespaces/ns_views/views",
            (200, {"identifiers": identifiers("t_first", "t_second")["identifiers"]}),
        ),
        ("views", "GET lake/namespaces/ns_views/views?more", (200, identifiers("t_first"))),
        ("views", "GET lake/namespaces/ns_views/views?more", (200, identifiers(token="more"))),
        ("maintenance", f"GET {TABLE}/maintenance/config", (200, {"version": 2})),
        ("maintenance", f"POST {TABLE}/maintenance/metadata", (200, {"job": {"job_id": "j"}, "audit-events": []})),
        ("maintenance", f"POST {TABLE}/maintenance/metadata", (200, {"job": {"job-id": "j"}, "audit-events": []})),
        ("maintenance", f"POST {TABLE}/maintenance/worker/run", (200, {"job": {"status": "QUEUED"}})),
        ("scheduler", f"GET {TABLE}/maintenance/scheduler", (200, {"status": "READY"})),
        (
            "scheduler",
            f"POST {TABLE}/maintenance/scheduler/run",
            (
                200,
                {
                    "report": {"job": {"status": "QUEUED", "scheduler-id": "other"}},
                    "scheduler": {"status": "QUEUED"},
                },
            ),
        ),
        ("scheduler", f"POST {TABLE}/maintenance/worker/run", (200, {"job": {"status": "LOST"}, "audit-events": []})),
        ("diagnostics", f"GET {TABLE}/catalog/diagnostics", (200, {})),
    ],
)
def test_wrong_response_fails_the_probe(name: str, call: str, wrong: tuple[int, Any]) -> None:
    probe, responses = PROBES[name]
    with pytest.raises(NotConforming):
        probe(Scripted({**responses(), call: wrong}))


def test_failed_probe_removes_its_views() -> None:
    calls = Scripted({**views_in_pages(), "GET lake/namespaces/ns_views/views/t_first": (500, {})})
    with pytest.raises(NotConforming):
        probes.probe_views_in_pages(calls, made_target())
    assert calls.requests[-3:] == [
        "DELETE lake/namespaces/ns_views/views/t_first",
        "DELETE lake/namespaces/ns_views/views/t_second",
        "DELETE lake/namespaces/ns_views",
    ]


def test_namespace_levels_are_encoded_in_paths() -> None:
    calls = Scripted({})
    assert calls.namespace_path("a.b c") == "lake/namespaces/a%1Fb%20c"
