"""Table maintenance: configuration, jobs with reports, scheduler, worker and quarantine."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from lakebed.catalog.maintenance.jobs.config import ConfigSource, MaintenanceConfig
from lakebed.catalog.maintenance.jobs.quarantine_review import QuarantineAction
from lakebed.catalog.maintenance.jobs.requests import RunRequest
from lakebed.catalog.maintenance.jobs.scheduling import DEFAULT_SCHEDULER, DEFAULT_WORKER
from lakebed.wire.http.message import Response
from lakebed.wire.json.documents import check_no_fields
from lakebed.wire.json.request import JsonRequest
from lakebed.wire.json.responses import no_content, ok
from lakebed.wire.json.routing import Route

from ..maintenance_responses import config_document, quarantine_documents, report_document, scheduler_document
from ..services import IcebergServices
from .tables import TABLE_PATH

_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Reason = Annotated[str, Meta(max_length=1024)]

_CONFIG_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(MaintenanceConfig))


class ConfigDocument(MaintenanceConfig, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """The body of putMaintenanceConfig. It accepts the response of a GET: `source` is ignored."""

    source: ConfigSource | None = None

    @property
    def config(self) -> MaintenanceConfig:
        """The configuration without `source`."""
        return MaintenanceConfig(**{name: getattr(self, name) for name in _CONFIG_FIELDS})


class SchedulerRun(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a scheduler run."""

    scheduler_id: _Name = DEFAULT_SCHEDULER


class WorkerRun(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a worker run."""

    worker_id: _Name = DEFAULT_WORKER


class Heartbeat(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a heartbeat."""

    lease_id: _Name
    worker_id: _Name


class QuarantineDecision(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """The body of a decision on quarantine."""

    action: QuarantineAction
    reason: _Reason = ""


async def get_config(services: IcebergServices, request: JsonRequest) -> Response:
    """The effective configuration of a table."""
    return ok(config_document(await services.maintenance.configs.get(request.caller, request.catalog, request.table)))


async def put_config(services: IcebergServices, request: JsonRequest) -> Response:
    """Set a table's own configuration."""
    config = (await request.document(ConfigDocument)).config
    configs = services.maintenance.configs
    return ok(config_document(await configs.put(request.caller, request.catalog, request.table, config)))


async def delete_config(services: IcebergServices, request: JsonRequest) -> Response:
    """Remove a table's own configuration: the default of its table bucket applies again."""
    await check_no_fields(request)
    await services.maintenance.configs.put(request.caller, request.catalog, request.table, None)
    return no_content()


async def get_default(services: IcebergServices, request: JsonRequest) -> Response:
    """The default of a table bucket."""
    return ok(config_document(await services.maintenance.configs.get_default(request.caller, request.catalog)))


async def put_default(services: IcebergServices, request: JsonRequest) -> Response:
    """Set the default of a table bucket."""
    config = (await request.document(ConfigDocument)).config
    configs = services.maintenance.configs
    return ok(config_document(await configs.put_default(request.caller, request.catalog, config)))


async def delete_default(services: IcebergServices, request: JsonRequest) -> Response:
    """Remove the default of a table bucket: the built-in one applies again."""
    await check_no_fields(request)
    await services.maintenance.configs.put_default(request.caller, request.catalog, None)
    return no_content()


async def run_maintenance(services: IcebergServices, request: JsonRequest) -> Response:
    """Run an operation: plan or remove files, expire snapshots, or queue a compaction."""
    document = await request.document(RunRequest)
    return ok(report_document(await services.maintenance.run(request.caller, request.catalog, request.table, document)))


async def get_job(services: IcebergServices, request: JsonRequest) -> Response:
    """A job with its report."""
    job = await services.maintenance.job(request.caller, request.catalog, request.table, request.names["job"])
    return ok(report_document(job))


async def get_scheduler(services: IcebergServices, request: JsonRequest) -> Response:
    """The state of a table's maintenance."""
    known, view = await services.maintenance.scheduler(request.caller, request.catalog, request.table)
    return ok(scheduler_document(known, view))


async def run_scheduler(services: IcebergServices, request: JsonRequest) -> Response:
    """Queue a job. The body is optional."""
    document = await request.document(SchedulerRun) if request.body else SchedulerRun()
    job, view = await services.maintenance.schedule(
        request.caller, request.catalog, request.table, document.scheduler_id
    )
    return ok({"report": report_document(job), "scheduler": scheduler_document(job.known, view)})


async def run_worker(services: IcebergServices, request: JsonRequest) -> Response:
    """Run a job to its end."""
    document = await request.document(WorkerRun)
    job = await services.maintenance.work(request.caller, request.catalog, request.table, document.worker_id)
    return ok(report_document(job))


async def heartbeat(services: IcebergServices, request: JsonRequest) -> Response:
    """Accept a worker's heartbeat."""
    document = await request.document(Heartbeat)
    job = await services.maintenance.heartbeat(
        request.caller,
        request.catalog,
        request.table,
        request.names["job"],
        worker_id=document.worker_id,
        lease_id=document.lease_id,
    )
    return ok(report_document(job))


async def decide_quarantine(services: IcebergServices, request: JsonRequest) -> Response:
    """Inspect, release or delete the files of a job in quarantine."""
    document = await request.document(QuarantineDecision)
    job, reviewed, view = await services.maintenance.quarantine(
        request.caller, request.catalog, request.table, request.names["job"], document.action, document.reason
    )
    return ok(
        {
            "action": document.action,
            "report": report_document(job),
            "scheduler": scheduler_document(job.known, view),
            "quarantined-objects": quarantine_documents(reviewed.held),
            "done-object-count": reviewed.released.done,
            "kept-object-count": reviewed.released.kept,
        }
    )


_TABLE = TABLE_PATH + "/maintenance"
_BUCKET = "/v1/buckets/{warehouse}/maintenance/config"

ROUTES = (
    Route("getMaintenanceConfig", "GET", _TABLE + "/config", get_config, is_standard=False),
    Route("putMaintenanceConfig", "PUT", _TABLE + "/config", put_config, is_standard=False),
    Route("deleteMaintenanceConfig", "DELETE", _TABLE + "/config", delete_config, is_standard=False),
    Route("getBucketMaintenanceConfig", "GET", _BUCKET, get_default, is_standard=False),
    Route("putBucketMaintenanceConfig", "PUT", _BUCKET, put_default, is_standard=False),
    Route("deleteBucketMaintenanceConfig", "DELETE", _BUCKET, delete_default, is_standard=False),
    Route("runMaintenance", "POST", _TABLE + "/metadata", run_maintenance, is_standard=False),
    Route("getMaintenanceJob", "GET", _TABLE + "/jobs/{job}", get_job, is_standard=False),
    Route("getMaintenanceScheduler", "GET", _TABLE + "/scheduler", get_scheduler, is_standard=False),
    Route("runMaintenanceScheduler", "POST", _TABLE + "/scheduler/run", run_scheduler, is_standard=False),
    Route("runMaintenanceWorker", "POST", _TABLE + "/worker/run", run_worker, is_standard=False),
    Route("heartbeatMaintenanceJob", "POST", _TABLE + "/jobs/{job}/heartbeat", heartbeat, is_standard=False),
    Route("decideQuarantine", "POST", _TABLE + "/jobs/{job}/quarantine", decide_quarantine, is_standard=False),
)
