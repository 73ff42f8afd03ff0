"""Wires one worker: settings → stores → services → wire protocols."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from lakebed.catalog.access.authorization import CatalogAuthorizer
from lakebed.catalog.access.s3_requests import TableFileAuthorizer
from lakebed.catalog.external.bridges.polling import BridgePolling
from lakebed.catalog.external.remote.client import catalog_http
from lakebed.catalog.external.storage.stores import ExternalStores
from lakebed.catalog.validation import ValidationLevel
from lakebed.core.clock import Clock, SystemClock
from lakebed.core.ids import DeploymentId
from lakebed.core.settings import Settings, StorageKind
from lakebed.governance.credentials.access_keys import AccessKeys
from lakebed.governance.credentials.lookup import CredentialLookup
from lakebed.governance.credentials.sessions import Sessions
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.governance.delegation.delegated_accesses import AccessCounter, DelegationTraceWriter
from lakebed.governance.delegation.delegations import DelegationLog
from lakebed.governance.delegation.vending import CredentialVending
from lakebed.governance.tokens import SessionPrincipals, TokenSigningKeys
from lakebed.meta.deployment import establish_deployment_id
from lakebed.meta.leases import Leases
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import MetaStore
from lakebed.meta.sqlite.disk_reserve import DiskReserve
from lakebed.net.async_client import AsyncHttpClient
from lakebed.objects.blobs.contents import Contents, MissingBlobs
from lakebed.objects.blobs.encryption import KeyRing
from lakebed.objects.blobs.garbage_collection import BlobGarbageCollector
from lakebed.objects.blobs.ingest import Ingester, OpenWriter
from lakebed.objects.blobs.orphan_sweep import OrphanSweep
from lakebed.objects.context import NO_RESERVED_NAMES, ObjectContext
from lakebed.objects.lifecycle import LifecycleRunner
from lakebed.storage.ownership import Ownership, StoreOwnership
from lakebed.storage.seam import ObjectStorage
from lakebed.wire.admin.app import AdminApplication, ReadinessCheck
from lakebed.wire.aws.authentication import SignatureAuthenticator
from lakebed.wire.aws.store_address import StoreAddress, StoreListener
from lakebed.wire.json.app import JsonApplication
from lakebed.wire.management.operations import management_mount
from lakebed.wire.management.services import ManagementServices
from lakebed.wire.s3.app import S3Application
from lakebed.wire.s3.services import S3Services
from lakebed.wire.s3.sts import SecurityTokenService

from .catalog import wire_catalog
from .catalog_jobs import CatalogJobs
from .decisions import AuthorizerSetup, wire_authorizer
from .events.governance_events import GovernanceEvents, wire_governance_events
from .events.live_events import LiveEvents, wire_live_events
from .events.request_log import RequestAudit, wire_request_audit
from .http.api_paths import Api, ReservedNames, server_api_paths
from .http.connections import ListenerApp
from .http.dispatch import BucketLookup, wire_listeners
from .logs import AccessLog
from .metrics import Metrics
from .metrics.instruments import Instruments, access_trace, with_access_log
from .processes.embedded_worker import WorkerStarter
from .selects import wire_selects
from .stores.identity import Identity, root_credential
from .stores.metadata import open_metadata
from .stores.object_store import confirm_object_store, open_storage
from .tokens import wire_tokens

REMOTE_GRACE_MS: Final = 15 * 60 * 1000
"""Time before garbage collection deletes a dropped blob from a remote object store, for running downloads."""


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The components of a worker."""

    apps: Mapping[bytes, ListenerApp]
    """The application of each listener, by the mark of its connections."""
    meta: MetaStore
    outbox: Outbox
    storage: ObjectStorage
    ingester: Ingester
    garbage_collector: BlobGarbageCollector
    orphan_sweep: OrphanSweep
    lifecycle: LifecycleRunner
    leases: Leases
    clock: Clock
    instruments: Instruments
    bridges: BridgePolling
    catalog_jobs: CatalogJobs
    token_keys: TokenSigningKeys
    worker_starter: WorkerStarter
    trace: DelegationTraceWriter
    governance: GovernanceEvents
    decisions: AuthorizerSetup
    outbound: AsyncHttpClient
    """The HTTP client for external catalogs."""
    external_stores: ExternalStores
    live: LiveEvents
    requests: RequestAudit


@asynccontextmanager
async def compose(
    settings: Settings, identity: Identity, metrics: Metrics, checks: Mapping[str, ReadinessCheck] | None = None
) -> AsyncIterator[WorkerParts]:
    """Open the stores and wire everything; closes them at the end. `checks` are readiness checks of the processes."""
    clock = SystemClock()
    master = MasterKeys(identity.master_keys, identity.active_key_id)
    meta = await open_metadata(settings, master)
    try:
        storage, open_writer = await open_storage(settings, clock)
        try:
            ownership = await confirm_object_store(settings, meta, storage)
            deployment = await establish_deployment_id(meta)
            parts = _wire(
                settings,
                identity,
                master,
                metrics,
                clock,
                meta,
                storage,
                ownership,
                open_writer,
                deployment,
                checks or {},
            )
            try:
                await parts.requests.begin()
                yield parts
            finally:
                await parts.decisions.close()
                parts.ingester.close()
                await parts.outbound.close()
                await parts.external_stores.close()
        finally:
            await storage.close()
    finally:
        await meta.close()


@dataclass(frozen=True, slots=True)
class Foundation:
    """The context that every service uses, and the parts of it that the server runs."""

    object_context: ObjectContext
    garbage_collector: BlobGarbageCollector
    decisions: AuthorizerSetup
    live: LiveEvents


def build_foundation(
    settings: Settings,
    identity: Identity,
    master: MasterKeys,
    clock: Clock,
    meta: MetaStore,
    storage: ObjectStorage,
    ownership: Ownership,
    open_writer: OpenWriter | None,
    count_missing: Callable[[], None] = lambda: None,
) -> Foundation:
    """Build the context on opened stores. `count_missing` is called for each read of a missing blob."""
    keys = KeyRing(
        {key_id: master.derive("object data keys", key_id) for key_id in identity.master_keys}, identity.active_key_id
    )
    is_local = settings.storage.kind is StorageKind.FOLDER
    grace_ms = 0 if is_local else REMOTE_GRACE_MS
    garbage_collector = BlobGarbageCollector(meta, storage, ownership, clock, grace_ms=grace_ms)
    decisions = wire_authorizer(settings.decisions, clock)
    outbox = Outbox(meta)
    live = wire_live_events(meta, outbox, clock)
    object_context = ObjectContext(
        meta=meta,
        outbox=outbox,
        storage=storage,
        ingester=Ingester(
            storage,
            keys,
            clock,
            inline_max_bytes=settings.objects.inline_max,
            open_writer=open_writer,
            capacity=None if settings.meta.is_postgres else DiskReserve(meta, settings.server.data),
        ),
        contents=Contents(storage, keys, MissingBlobs(meta, count_missing).explain),
        authorizer=decisions.authorizer,
        clock=clock,
        garbage_collector=garbage_collector,
        region=settings.server.region,
        default_encryption=settings.objects.default_encryption,
        garbage_grace_ms=grace_ms,
        read_events=live.accesses,
        reserved_names=NO_RESERVED_NAMES
        if settings.server.catalog_listen is not None
        else ReservedNames(server_api_paths()),
    )
    return Foundation(
        replace(object_context, table_buckets=TableFileAuthorizer(meta, CatalogAuthorizer(object_context), clock)),
        garbage_collector,
        decisions,
        live,
    )


def _store_address(settings: Settings) -> StoreAddress:
    """The S3 endpoint for clients of the catalog."""
    server = settings.server
    listener: StoreListener | None = None
    if server.catalog_listen is not None:
        # On a wildcard address or the catalog's host, S3 has the host name by which the client reached the catalog.
        shares_host = server.listen.is_wildcard or server.listen.host == server.catalog_listen.host
        listener = StoreListener(None if shares_host else server.listen.host, server.listen.port)
    return StoreAddress(server.region, settings.tables.s3_endpoint, server.domains, listener)


def _wire(
    settings: Settings,
    identity: Identity,
    master: MasterKeys,
    metrics: Metrics,
    clock: Clock,
    meta: MetaStore,
    storage: ObjectStorage,
    ownership: StoreOwnership,
    open_writer: OpenWriter | None,
    deployment: DeploymentId,
    checks: Mapping[str, ReadinessCheck],
) -> WorkerParts:
    instruments = Instruments(metrics)
    foundation = build_foundation(
        settings,
        identity,
        master,
        clock,
        meta,
        storage,
        ownership,
        open_writer,
        instruments.missing_blobs.add,
    )
    object_context, garbage_collector = foundation.object_context, foundation.garbage_collector
    day_ms = round(settings.objects.lifecycle_day * 1000)
    root = root_credential(identity)
    access_keys = AccessKeys(meta, object_context.outbox, master, clock, root)
    sessions = Sessions(master, SessionPrincipals(meta, access_keys), clock, max_policy_bytes=20 * 1024)
    credentials = CredentialLookup(access_keys, sessions)
    authenticator = SignatureAuthenticator(credentials, clock)
    governance = wire_governance_events(
        object_context, master, settings.listeners, settings.targets, foundation.live.event_listeners
    )
    services = S3Services.on(
        object_context,
        authenticator,
        policies=foundation.decisions.policies,
        lifecycle_day_ms=day_ms,
        selects=wire_selects(settings, object_context),
        select_ended=instruments.selects.ended,
        feed=foundation.live.feed,
        targets=governance.records,
        rules_per_bucket=settings.targets.rules_per_bucket,
    )
    session_tokens = SecurityTokenService(
        sessions,
        object_context,
        default_seconds=int(settings.sts.default_duration),
        max_seconds=int(settings.sts.max_duration),
    )
    delegations, accesses = DelegationLog(meta), AccessCounter(meta, clock)
    s3 = S3Application(
        services,
        session_tokens,
        clock=clock,
        domains=settings.server.domains,
        host_id=f"lakebed-{random.SystemRandom().getrandbits(32):08x}",
        observe=instruments.s3.observe,
        trace=access_trace(accesses),
        around_deletion=governance.hooks.around_catalog_deletion,
        on_refusal=governance.refusal_recorder("s3"),
    )

    tokens = wire_tokens(
        settings,
        meta,
        object_context.outbox,
        master,
        clock,
        access_keys,
        root,
        instruments.oauth.observe,
        on_refusal=governance.refusal_recorder("oauth"),
    )
    bundle = settings.federation.ca_bundle
    outbound = catalog_http(None if bundle is None else str(bundle))
    catalog = wire_catalog(
        object_context,
        credentials,
        CredentialVending(sessions, delegations, ttl_seconds=settings.tables.credential_ttl),
        _store_address(settings),
        instruments.catalog.observe,
        master,
        outbound,
        safety_window_ms=round(settings.tables.maintenance_safety_window * 1000),
        validation=ValidationLevel(settings.tables.validation),
        observe_admin=instruments.admin.observe,
        bearers=tokens.bearers,
        schedule_interval_seconds=settings.pipeline.schedule_interval,
        schedule_debounce_seconds=settings.pipeline.debounce,
        account=root.principal.account,
        trace_retention_seconds=settings.tables.trace_retention,
        governance=governance,
        federation=settings.federation,
        feed=foundation.live.feed,
        deployment=deployment,
        access_delegation=settings.tables.access_delegation,
        client_locations=settings.tables.client_locations,
        external_storage=settings.external_storage,
        own_store=settings.storage.s3 if settings.storage.kind is StorageKind.S3 else None,
    )

    management = JsonApplication(
        catalog.shared,
        [
            management_mount().on(
                ManagementServices.on(
                    object_context,
                    root,
                    tokens.clients,
                    catalog.jobs.copies.discard_orphans,
                    catalog.federation,
                    catalog.storage.profiles,
                )
            )
        ],
        observe=instruments.management.observe,
        on_refusal=governance.refusal_recorder("management"),
    )

    async def metadata_answers() -> None:
        # A table, because a constant query does not read the file.
        await meta.row("SELECT version FROM schema_versions LIMIT 1")

    async def object_store_is_ours() -> None:
        await ownership.confirm()

    stores: dict[str, ReadinessCheck] = {"metadata store": metadata_answers, "object store": object_store_is_ours}
    admin = AdminApplication({**stores, **checks}, metrics.render)
    event_listeners = foundation.live.event_listeners
    requests = wire_request_audit(
        meta,
        governance.requests,
        clock,
        master,
        event_listeners,
        governance.records.request_subscribers,
        instruments.unrecorded.add,
    )

    access_log = AccessLog(sys.stderr.fileno(), settings.log.format, clock) if settings.log.access else None
    apps = wire_listeners(
        {
            Api.HEALTH: admin,
            Api.TOKENS: tokens.application,
            Api.CATALOG: catalog.application,
            Api.ADMIN: catalog.admin,
            Api.MANAGEMENT: management,
            Api.S3: s3,
        },
        s3.reject,
        requests.record,
        BucketLookup(meta),
        lambda application: application if access_log is None else with_access_log(application, access_log, clock),
        domains=settings.server.domains,
        has_catalog_listener=settings.server.catalog_listen is not None,
    )
    leases = Leases(meta, clock)
    return WorkerParts(
        apps=apps,
        meta=meta,
        outbox=object_context.outbox,
        storage=storage,
        ingester=object_context.ingester,
        garbage_collector=garbage_collector,
        orphan_sweep=OrphanSweep(
            meta, storage, ownership, garbage_collector, clock, window_ms=round(settings.objects.orphan_window * 1000)
        ),
        lifecycle=LifecycleRunner(object_context, day_ms=day_ms),
        leases=leases,
        clock=clock,
        instruments=instruments,
        bridges=catalog.polling,
        catalog_jobs=catalog.jobs,
        token_keys=tokens.keys,
        worker_starter=WorkerStarter(settings, identity, catalog.jobs.tasks, leases),
        trace=DelegationTraceWriter(delegations, accesses),
        governance=governance,
        decisions=foundation.decisions,
        outbound=outbound,
        external_stores=catalog.storage.stores,
        live=foundation.live,
        requests=requests,
    )
