"""Services called by the handlers of the admin API."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.catalog.external.federation.service import Federation
from lakebed.catalog.idempotency import IdempotencyKeys
from lakebed.catalog.labels.service import LabelManagement
from lakebed.catalog.maintenance.service import TableMaintenance
from lakebed.catalog.maintenance.tasks.service import TaskService
from lakebed.catalog.policies.attachments import PolicyAttachments
from lakebed.catalog.policies.coverage import PolicyCoverage
from lakebed.catalog.tables.arrivals import Arrivals
from lakebed.events.delegation_audit import DelegationAudit
from lakebed.events.delivery import TargetService
from lakebed.events.ids import EventIds
from lakebed.events.live.feed import LiveFeed
from lakebed.events.log import EventLog
from lakebed.meta.tasks import TaskQueue
from lakebed.streams.admin.failover import Failover


@dataclass(frozen=True, slots=True)
class AdminServices:
    """Services for operators and workers."""

    region: str
    keys: IdempotencyKeys
    maintenance: TableMaintenance
    tasks: TaskService
    queue: TaskQueue
    """Only for waiting: all operations on tasks go through `tasks`."""
    events: EventLog
    audit: EventLog
    delegation_audit: DelegationAudit
    targets: TargetService
    arrivals: Arrivals
    feed: LiveFeed
    event_ids: EventIds
    failover: Failover
    attachments: PolicyAttachments
    coverage: PolicyCoverage
    labels: LabelManagement
    federation: Federation
