"""Wires the catalog and administration APIs of one worker."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.access.data_access import DataAccess
from lakebed.catalog.catalogs.service import CatalogService
from lakebed.catalog.commits.metadata_cache import MetadataCache
from lakebed.catalog.commits.publishing import Publisher
from lakebed.catalog.commits.service import Commits
from lakebed.catalog.entries import Entries
from lakebed.catalog.external.bridges.polling import BridgePolling
from lakebed.catalog.external.federation.service import Federation, wire_federation
from lakebed.catalog.external.notifications import NotificationReceiver
from lakebed.catalog.external.remote.client import RemoteCatalogs
from lakebed.catalog.external.storage.vending import ExternalVending
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.labels.service import LabelManagement
from lakebed.catalog.labels.targets import LabelTargets
from lakebed.catalog.locations.claims import LocationClaims
from lakebed.catalog.maintenance.jobs.service import build_maintenance_jobs
from lakebed.catalog.maintenance.service import MaintenanceParts, build_maintenance
from lakebed.catalog.namespaces import Namespaces
from lakebed.catalog.policies.attachments import PolicyAttachments
from lakebed.catalog.policies.coverage import PolicyCoverage
from lakebed.catalog.policies.policies import PolicyManagement
from lakebed.catalog.policies.policy_types import PolicyTypes
from lakebed.catalog.policies.policy_versions import PolicyVersions
from lakebed.catalog.policies.targets import PolicyTargets
from lakebed.catalog.restrictions.copies import Copies
from lakebed.catalog.scans.scan_plans import ScanPlans
from lakebed.catalog.tables.creation import Creation
from lakebed.catalog.tables.drops import Dropping
from lakebed.catalog.tables.generic_tables import GenericTables
from lakebed.catalog.tables.metrics_reports import MetricsReports
from lakebed.catalog.tables.purging import PurgeWorker
from lakebed.catalog.tables.registration import TableRegistration
from lakebed.catalog.tables.renaming import Renaming
from lakebed.catalog.tables.served_files import ServedFiles
from lakebed.catalog.tables.views import Views
from lakebed.catalog.validation.commit import CommitValidator
from lakebed.catalog.validation.model import ValidationLevel
from lakebed.core.access import DEFAULT_ACCOUNT, CredentialResolver
from lakebed.core.delegation import AccessDelegation
from lakebed.core.ids import DeploymentId
from lakebed.core.settings import ExternalStorageSettings, FederationSettings, S3StorageSettings
from lakebed.events.delegation_audit import DelegationAudit
from lakebed.events.ids import EventIds
from lakebed.events.live.feed import LiveFeed
from lakebed.events.log import EventLog, audit_trail
from lakebed.governance.credentials.bearer_tokens import BearerTokens
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.delegation.delegations import KEPT_SECONDS, DelegationLog
from lakebed.governance.delegation.vending import CredentialVending
from lakebed.meta.leases import Leases
from lakebed.net.hosts import AllowedHosts
from lakebed.net.http import Http
from lakebed.objects.context import ObjectContext
from lakebed.objects.deleting import ObjectDeleter
from lakebed.objects.reading import ObjectReader
from lakebed.objects.writing import ObjectWriter
from lakebed.streams.admin.failover import Failover
from lakebed.streams.authorization import StreamAuthorizer as StreamGate
from lakebed.streams.servers.registry import ServerRegistry
from lakebed.wire.admin.operations import admin_mount
from lakebed.wire.admin.services import AdminServices
from lakebed.wire.aws.authentication import SignatureAuthenticator
from lakebed.wire.aws.store_address import StoreAddress
from lakebed.wire.iceberg.operations import catalog_routes, iceberg_mounts
from lakebed.wire.iceberg.services import IcebergServices
from lakebed.wire.json.app import JsonApplication, JsonServices, Observe
from lakebed.wire.json.authentication import BearerAuthenticator
from lakebed.wire.json.request import MAX_BODY_BYTES
from lakebed.wire.json.routing import Mount
from lakebed.wire.json.table_access import TableAccess
from lakebed.wire.polaris.operations import polaris_endpoints, polaris_mounts, polaris_routes
from lakebed.wire.polaris.services import PolarisServices
from lakebed.wire.s3.documents.deletion import deleted_keys

from .catalog_extensions import wire_extensions
from .catalog_jobs import CatalogJobs
from .events.governance_events import GovernanceEvents, wire_governance_events
from .events.live_events import wire_live_events
from .external_storage import ExternalStorage, wire_external_storage

SAFETY_WINDOW_MS: Final = 900_000
"""Default minimum age of files that maintenance removes."""

SCHEDULE_INTERVAL_SECONDS: Final = 300.0
SCHEDULE_DEBOUNCE_SECONDS: Final = 10.0
"""Default interval of planning all tables, and delay of planning a table after a commit."""


@dataclass(frozen=True, slots=True)
class CatalogServices:
    """The applications of the catalog and administration APIs, and background services."""

    application: JsonApplication
    admin: JsonApplication
    shared: JsonServices
    """Services shared with the management API."""
    federation: Federation
    maintenance: MaintenanceParts
    jobs: CatalogJobs
    polling: BridgePolling
    storage: ExternalStorage


def wire_catalog(
    object_context: ObjectContext,
    credentials: CredentialResolver,
    vending: CredentialVending,
    store: StoreAddress,
    observe: Observe,
    master: MasterKeys,
    http: Http,
    *,
    deployment: DeploymentId,
    safety_window_ms: int = SAFETY_WINDOW_MS,
    validation: ValidationLevel = ValidationLevel.STANDARD,
    observe_admin: Observe | None = None,
    bearers: BearerTokens | None = None,
    schedule_interval_seconds: float = SCHEDULE_INTERVAL_SECONDS,
    schedule_debounce_seconds: float = SCHEDULE_DEBOUNCE_SECONDS,
    account: str = DEFAULT_ACCOUNT,
    trace_retention_seconds: float = KEPT_SECONDS,
    governance: GovernanceEvents | None = None,
    federation: FederationSettings = FederationSettings(),  # noqa: B008  # immutable
    feed: LiveFeed | None = None,
    access_delegation: AccessDelegation = AccessDelegation.VENDED,
    client_locations: bool = True,
    external_storage: ExternalStorageSettings = ExternalStorageSettings(),  # noqa: B008  # immutable
    own_store: S3StorageSettings | None = None,
) -> CatalogServices:
    """The catalog on an object store, and the administration API. Without `bearers`, only signatures are accepted.

    `account` is root's; `http` sends requests to external catalogs; `own_store` is the object store of the server.
    """
    governance = governance or wire_governance_events(object_context, master)
    meta, clock = object_context.meta, object_context.clock
    reader, writer, deleter = ObjectReader(object_context), ObjectWriter(object_context), ObjectDeleter(object_context)
    tasks = governance.tasks
    authorizer = CatalogAuthorizer(object_context)
    cache = MetadataCache()
    storage = wire_external_storage(
        external_storage, meta, clock, ServedFiles(object_context, writer, reader, deleter), own_store
    )
    files = storage.files
    keys = IdempotencyKeys(meta, clock)
    catalogs = CatalogService(object_context, authorizer)
    namespaces = Namespaces(object_context, authorizer, catalogs, keys)
    entries = Entries(meta, files, authorizer, cache)
    claims = LocationClaims(object_context, files, client_locations=client_locations)
    publisher = Publisher(object_context, files, entries, keys, claims)
    validator = CommitValidator(level=validation)
    commits = Commits(object_context, entries, files, publisher, validator, cache, claims)
    registration = TableRegistration(object_context, authorizer, entries, files, publisher, validator, cache, claims)
    remotes = RemoteCatalogs(http, clock, AllowedHosts(federation.hosts, setting="federation.hosts"))
    extensions = wire_extensions(
        object_context, authorizer, catalogs, entries, files, commits, registration, claims, master, remotes
    )
    dropping = Dropping(object_context, authorizer, catalogs, entries, keys, tasks)
    reports = MetricsReports(object_context, entries)
    copies = Copies(object_context, namespaces, entries, files, publisher, cache, dropping, tasks, claims)
    scans = ScanPlans(meta, files, entries, commits, clock, copies)
    worker_id = f"{socket.gethostname()}:{os.getpid()}"
    maintenance_jobs, background_maintenance = build_maintenance_jobs(
        object_context,
        authorizer,
        catalogs,
        entries,
        files,
        commits,
        tasks,
        safety_window_ms=safety_window_ms,
        worker_id=worker_id,
    )
    maintenance = build_maintenance(
        object_context,
        authorizer,
        catalogs,
        entries,
        files,
        tasks,
        holder=worker_id,
        interval_seconds=schedule_interval_seconds,
        debounce_seconds=schedule_debounce_seconds,
    )
    policy_types = PolicyTypes(object_context, authorizer, catalogs, keys)
    policies = PolicyManagement(object_context, authorizer, catalogs, namespaces, keys, policy_types)
    targets = PolicyTargets(authorizer, catalogs, entries)
    attaching = PolicyAttachments(object_context, catalogs, keys, policy_types, policies, targets)
    signatures = SignatureAuthenticator(credentials, clock, generic_signing=True, max_body_bytes=MAX_BODY_BYTES)
    shared = JsonServices(
        clock=clock,
        authenticator=signatures if bearers is None else BearerAuthenticator(bearers, signatures),
        keys=keys,
        precheck=catalogs.precheck,
        around=governance.hooks.around,
    )
    creation = Creation(object_context, entries, files, publisher, cache, claims)
    data_access = DataAccess(meta, authorizer, claims)
    access = TableAccess(
        vending,
        access_delegation,
        store,
        storage.profiles,
        ExternalVending(storage.profiles, storage.stores, vending.log, clock, ttl_seconds=vending.ttl_seconds),
    )
    external = wire_federation(
        object_context, authorizer, catalogs, keys, master, replace(remotes, timeout_seconds=federation.timeout)
    )
    services = IcebergServices(
        meta=meta,
        clock=clock,
        catalogs=catalogs,
        namespaces=namespaces,
        entries=entries,
        creation=creation,
        commits=commits,
        registration=registration,
        views=Views(object_context, entries, files, publisher, cache, claims),
        dropping=dropping,
        renaming=Renaming(object_context, authorizer, entries, keys),
        notifications=NotificationReceiver(
            object_context, authorizer, catalogs, namespaces, entries, registration, dropping
        ),
        reports=reports,
        scans=scans,
        keys=keys,
        data_access=data_access,
        access=access,
        deleted_keys=deleted_keys,
        extensions=extensions.tables,
        maintenance=maintenance_jobs,
        federation=external,
    )
    polaris = PolarisServices(
        meta=meta,
        clock=clock,
        entries=entries,
        dropping=dropping,
        keys=keys,
        data_access=data_access,
        access=access,
        region=object_context.region,
        policies=policies,
        policy_types=policy_types,
        attachments=attaching,
        policy_versions=PolicyVersions(meta, policies),
        generic_tables=GenericTables(object_context, authorizer, entries, keys, claims),
        federation=external,
    )
    admin = AdminServices(
        region=object_context.region,
        keys=keys,
        maintenance=maintenance.maintenance,
        tasks=maintenance.tasks,
        queue=tasks,
        events=EventLog(object_context),
        audit=audit_trail(object_context),
        delegation_audit=DelegationAudit(object_context),
        targets=governance.targets,
        arrivals=governance.arrivals,
        feed=feed or wire_live_events(meta, object_context.outbox, clock).feed,
        event_ids=EventIds(deployment),
        failover=Failover(
            meta,
            object_context.outbox,
            clock,
            StreamGate(object_context.authorizer, account),
            Leases(meta, clock),
            ServerRegistry(meta, clock),
        ),
        attachments=attaching,
        coverage=PolicyCoverage(object_context, authorizer, catalogs, policy_types, policies, targets, attaching),
        labels=LabelManagement(
            object_context, catalogs, LabelTargets(object_context, authorizer, catalogs, entries, policies, account)
        ),
        federation=external,
    )
    catalog_edge = catalog_mounts()
    return CatalogServices(
        JsonApplication(
            shared,
            [
                *(mount.on(services) for mount in catalog_edge.iceberg),
                *(mount.on(polaris) for mount in catalog_edge.polaris),
            ],
            observe=observe,
            on_refusal=governance.refusal_recorder("catalog"),
        ),
        JsonApplication(
            shared, [admin_mount().on(admin)], observe=observe_admin, on_refusal=governance.refusal_recorder("admin")
        ),
        shared,
        external,
        maintenance,
        CatalogJobs(
            dropping=dropping,
            keys=keys,
            reports=reports,
            scans=scans,
            copies=copies,
            claims=claims,
            maintenance=background_maintenance,
            purges=PurgeWorker(object_context, files, deleter, tasks, worker_id),
            tasks=tasks,
            scheduler=maintenance.scheduler,
            clock=clock,
            delegations=DelegationLog(meta),
            trace_retention_seconds=trace_retention_seconds,
        ),
        extensions.polling,
        storage,
    )


class CatalogMounts(NamedTuple):
    """The routes of the catalog APIs, by mount."""

    iceberg: Sequence[Mount[IcebergServices]]
    polaris: Sequence[Mount[PolarisServices]]


@functools.cache
def catalog_mounts() -> CatalogMounts:
    """All routes of the catalog APIs."""
    polaris = polaris_routes()
    return CatalogMounts(iceberg_mounts(catalog_routes(polaris_endpoints(polaris))), polaris_mounts(polaris))
