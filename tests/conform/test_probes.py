"""Each probe against a catalog of answers: the right ones pass, and each wrong one is found."""

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
Answers = dict[str, tuple[int, Any]]  # Any: JSON


class Scripted(CatalogCalls):
    """A catalog that answers from a table; a list is answered one by one, its last for ever."""

    def __init__(self, answers: Answers) -> None:
        self._target = made_target()
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, method: str, path: str, body: object = None, query: Mapping[str, str] | None = None) -> ProbeResponse:
        asked = f"{method} {path}" + ("?" + query["pageToken"] if query else "")
        if method == "DELETE" and isinstance(body, dict) and body.get("force"):
            asked += " force"
        self.asked.append(asked)
        status, document = self.answers.get(asked, (404, {"error": {"message": f"no answer to {asked}"}}))
        if isinstance(document, list):
            document = document.pop(0) if len(document) > 1 else document[0]
        return ProbeResponse(status, json.dumps(document))


def made_target() -> ConformTarget:
    return target("--bucket", "lake", "--namespace", "ns", "--table", "t")


def identifiers(*names: str, token: str | None = None) -> dict[str, Any]:
    return {"identifiers": [{"namespace": ["x"], "name": name} for name in names], "next-page-token": token}


def load() -> Answers:
    return {f"GET {TABLE}": (200, {"metadata-location": "s3://m", "metadata": {"current-snapshot-id": 7}})}


def pointer() -> Answers:
    return {f"GET {TABLE}/metadata-location": (200, {"metadata-location": "s3://m", "version-token": "v"})}


def references() -> Answers:
    one = f"{TABLE}/refs/conform_probe"
    return {
        f"PUT {one}": (200, {}),
        f"GET {TABLE}/refs": (200, [{"refs": {"conform_probe": {}}}, {"refs": {}}]),
        f"DELETE {one}": (400, {"error": {"message": "Force is required"}}),
        f"DELETE {one} force": (200, {}),
    }


def view() -> Answers:
    views = "lake/namespaces/ns/views"
    return {
        f"POST {views}": (200, {}),
        f"GET {views}": (200, identifiers("t_conform_view")),
        f"GET {views}/t_conform_view": (200, {"metadata-location": "s3://v"}),
        f"DELETE {views}/t_conform_view": (204, {}),
    }


def views_in_pages() -> Answers:
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


def maintenance() -> Answers:
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


def scheduler() -> Answers:
    base = f"{TABLE}/maintenance"
    job = {"status": "QUEUED", "scheduler-id": "lakebed-conform"}
    return {
        f"PUT {base}/config": (200, {}),
        f"GET {base}/scheduler": (200, {"status": "READY", "audit_timeline": []}),
        f"POST {base}/scheduler/run": (200, {"report": {"job": job}, "scheduler": {"status": "QUEUED"}}),
        f"POST {base}/worker/run": (200, {"job": {"status": "SUCCESSFUL"}, "audit-events": []}),
    }


def diagnostics() -> Answers:
    return {f"GET {TABLE}/catalog/diagnostics": (200, {"recovery_status": "HEALTHY"})}


LOADED = load()[f"GET {TABLE}"][1]

PROBES: dict[str, tuple[Callable[[Scripted], object], Callable[[], Answers]]] = {
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
def test_right_answers_pass_and_all_are_asked_for(name: str) -> None:
    probe, answers = PROBES[name]
    calls = Scripted(answers())
    probe(calls)
    assert set(calls.asked) == set(answers())


@pytest.mark.parametrize(
    ("name", "asked"), [(name, asked) for name, (_, answers) in PROBES.items() for asked in answers()]
)
def test_route_that_is_not_there_is_found(name: str, asked: str) -> None:
    probe, answers = PROBES[name]
    left = answers()
    del left[asked]
    with pytest.raises(NotConforming):
        probe(Scripted(left))


@pytest.mark.parametrize(
    ("name", "asked", "wrong"),
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
def test_wrong_answer_is_found(name: str, asked: str, wrong: tuple[int, Any]) -> None:
    probe, answers = PROBES[name]
    with pytest.raises(NotConforming):
        probe(Scripted({**answers(), asked: wrong}))


def test_views_of_a_probe_that_failed_are_removed() -> None:
    calls = Scripted({**views_in_pages(), "GET lake/namespaces/ns_views/views/t_first": (500, {})})
    with pytest.raises(NotConforming):
        probes.probe_views_in_pages(calls, made_target())
    assert calls.asked[-3:] == [
        "DELETE lake/namespaces/ns_views/views/t_first",
        "DELETE lake/namespaces/ns_views/views/t_second",
        "DELETE lake/namespaces/ns_views",
    ]


def test_levels_of_a_namespace_are_told_apart_in_paths() -> None:
    calls = Scripted({})
    assert calls.namespace_path("a.b c") == "lake/namespaces/a%1Fb%20c"
