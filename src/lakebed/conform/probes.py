"""Probes of catalog routes that the standard client does not use, by HTTP requests.

(a) load, (b) metadata location, (c) references, (d) views, (e) maintenance, (f) diagnostics. Views and maintenance have
an older and a newer form; both are probed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from .expectations import NotConforming, either, expect, member
from .options import ConformTarget
from .rest import CatalogCalls

_TAG: Final = "conform_probe"
_DAY_MS: Final = 86_400_000
_MAX_PAGES: Final = 16
_SCHEDULER: Final = "lakebed-conform"
_WORKER_STATUSES: Final = frozenset({"DISABLED", "PAUSED", "FAILED", "SUCCESSFUL", "RUNNING"})

Document = Mapping[str, Any]  # Any: JSON


def probe_catalog(calls: CatalogCalls, target: ConformTarget) -> None:
    """Run all probes. Raises NotConforming."""
    loaded = probe_load(calls)
    probe_metadata_location(calls, loaded)
    probe_references(calls, member(loaded, "metadata", "current-snapshot-id"))
    probe_view(calls, target)
    probe_views_in_pages(calls, target)
    probe_maintenance(calls)
    probe_scheduler(calls)
    probe_diagnostics(calls)


def probe_load(calls: CatalogCalls) -> Document:
    """(a) A written table has a snapshot and a metadata file."""
    loaded = calls.get(calls.table_path)
    snapshot = member(loaded, "metadata", "current-snapshot-id")
    expect(isinstance(snapshot, int), f"current-snapshot-id is a number. found={snapshot!r}")
    expect(isinstance(member(loaded, "metadata-location"), str), "metadata-location is a string")
    return loaded


def probe_metadata_location(calls: CatalogCalls, loaded: Document) -> None:
    """(b) The metadata pointer is the loaded one, and has a version token."""
    found = calls.get(f"{calls.table_path}/metadata-location")
    expected = member(loaded, "metadata-location")
    expect(
        member(found, "metadata-location") == expected,
        f"metadata-location is the loaded one. expected={expected} found={found['metadata-location']}",
    )
    expect(member(found, "version-token"), "version-token is not empty")


def probe_references(calls: CatalogCalls, snapshot: int) -> None:
    """(c) A tag with a retention is created and listed; only a forced delete removes it."""
    refs = f"{calls.table_path}/refs"
    one = f"{refs}/{_TAG}"
    calls.call("PUT", one, {"snapshot-id": snapshot, "type": "tag", "max-ref-age-ms": _DAY_MS})
    expect(_TAG in member(calls.get(refs), "refs"), "the tag is among the references")
    refused = calls.send("DELETE", one, {})
    expect(refused.status == 400, f"a tag with a retention is not deleted without force. status={refused.status}")
    expect("force is required" in refused.text.lower(), f"the refusal says that force is required: {refused.text}")
    calls.call("DELETE", one, {"force": True})
    expect(_TAG not in member(calls.get(refs), "refs"), "the tag is deleted")


def probe_view(calls: CatalogCalls, target: ConformTarget) -> None:
    """(d), older: a view in the table's namespace, without a default namespace in its version."""
    name = f"{target.table}_conform_view"
    views = f"{calls.namespace_path()}/views"
    calls.call("POST", views, _view(name, {}))
    with _deleting(calls, [f"{views}/{name}"]):
        expect(name in _names(calls.get(views)), "the view is listed")
        expect(member(calls.get(f"{views}/{name}"), "metadata-location"), "the view has a metadata-location")


def probe_views_in_pages(calls: CatalogCalls, target: ConformTarget) -> None:
    """(d), newer: two views in a new namespace, listed with and without pagination."""
    namespace = f"{target.namespace.replace('.', '_')}_views"
    space = calls.namespace_path(namespace)
    views = f"{space}/views"
    names = [f"{target.table}_first", f"{target.table}_second"]
    calls.call("POST", f"{target.bucket}/namespaces", {"namespace": [namespace]})
    with _deleting(calls, [*(f"{views}/{name}" for name in names), space]):
        for name in names:
            calls.call("POST", views, _view(name, {"default-namespace": [namespace]}))
        whole = calls.get(views)
        expect(member(whole, "next-page-token") is None, "a list without page parameters has no next page")
        expect(sorted(_names(whole)) == sorted(names), "both views are listed")
        expect(sorted(_pages(calls, views)) == sorted(names), "pages of size 1 contain each view once")
        for name in names:
            expect(member(calls.get(f"{views}/{name}"), "metadata-location"), "the view has a metadata-location")


def probe_maintenance(calls: CatalogCalls) -> None:
    """(e), older: a configuration, a dry run that creates a job, and one run of the worker."""
    base = f"{calls.table_path}/maintenance"
    _configure(calls, base, background=False)
    expect(member(calls.get(f"{base}/config"), "version") == 1, "the configuration has version 1")
    report = calls.call("POST", f"{base}/metadata", {"retain-recent-metadata-files": 1, "delete": False}).document
    job = member(report, "job", "job-id")  # the spelling of older clients
    actions = [event.get("action") for event in member(report, "audit-events")]
    expect("PLANNED" in actions, f"the dry run is audited as PLANNED. found={actions}")
    stored = calls.get(f"{base}/jobs/{job}")
    expect(either(member(stored, "job"), "job-id", "job_id") == job, "the job is found by its id")
    expect(isinstance(member(stored, "audit-events"), list), "the job has its audit events")
    inspected = calls.call("POST", f"{base}/jobs/{job}/quarantine", {"action": "INSPECT"}).document
    expect(member(inspected, "action") == "INSPECT", "the quarantine is inspected")
    ran = calls.call("POST", f"{base}/worker/run", {}).document
    status = member(ran, "job", "status")
    expect(status in _WORKER_STATUSES, f"the worker run has a known status. found={status}")


def probe_scheduler(calls: CatalogCalls) -> None:
    """(e), newer: with background-enabled, a run of the scheduler queues a job for the worker."""
    base = f"{calls.table_path}/maintenance"
    seen = calls.get(f"{base}/scheduler")
    expect(member(seen, "status"), "the scheduler has a status")
    expect(isinstance(member(seen, "audit_timeline"), list), "the scheduler has a timeline")
    _configure(calls, base, background=True)
    try:
        queued = calls.call("POST", f"{base}/scheduler/run", {"scheduler-id": _SCHEDULER}).document
        job = member(queued, "report", "job")
        expect(job.get("status") == "QUEUED", f"the scheduler queues a job. found={job.get('status')}")
        expect(either(job, "scheduler-id", "scheduler_id") == _SCHEDULER, "the job has the scheduler-id")
        expect(member(queued, "scheduler", "status") == "QUEUED", "the scheduler has status QUEUED")
        ran = calls.call("POST", f"{base}/worker/run", {}).document
        status = member(ran, "job", "status")
        expect(status in _WORKER_STATUSES | {"QUEUED"}, f"the worker run has a known status. found={status}")
        expect(isinstance(member(ran, "audit-events"), list), "the worker run is audited")
    finally:
        _configure(calls, base, background=False)


def probe_diagnostics(calls: CatalogCalls) -> None:
    """(f) The table has diagnostics."""
    expect(calls.get(f"{calls.table_path}/catalog/diagnostics"), "the diagnostics are not empty")


@contextmanager
def _deleting(calls: CatalogCalls, paths: Sequence[str]) -> Iterator[None]:
    """Delete resources of a probe. Failures to delete are ignored after a failed probe, whose error is reported."""
    try:
        yield
    except NotConforming:
        with suppress(NotConforming):
            for path in paths:
                calls.send("DELETE", path)
        raise
    for path in paths:
        calls.call("DELETE", path)


def _configure(calls: CatalogCalls, base: str, *, background: bool) -> None:
    config = {
        "version": 1,
        "retain-recent-metadata-files": 1,
        "delete-enabled": False,
        "background-enabled": background,
    }
    calls.call("PUT", f"{base}/config", config)


def _view(name: str, version: dict[str, Any]) -> dict[str, Any]:  # Any: JSON
    column = {"id": 1, "name": "id", "required": True, "type": "long"}
    return {
        "name": name,
        "schema": {"type": "struct", "schema-id": 0, "fields": [column]},
        "view-version": {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": 1_700_000_000_000,
            "summary": {"engine-name": "lakebed-conform"},
            "representations": [{"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"}],
            **version,
        },
        "properties": {},
    }


def _names(page: Document) -> list[str]:
    return [str(identifier["name"]) for identifier in member(page, "identifiers")]


def _pages(calls: CatalogCalls, path: str) -> list[str]:
    names: list[str] = []
    token: str | None = ""
    for _ in range(_MAX_PAGES):
        page = calls.get(path, {"pageSize": "1", "pageToken": token or ""})
        names += _names(page)
        token = member(page, "next-page-token")
        if token is None:
            return names
    raise NotConforming(f"listing does not end. pages={_MAX_PAGES}")
