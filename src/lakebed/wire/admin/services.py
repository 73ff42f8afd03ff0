"""What the handlers of the administration API call."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.events.access_trail import AccessTrail
from lakebed.events.delivery import Targets
from lakebed.events.feed import Feed
from lakebed.events.ids import EventIds
from lakebed.events.log import EventLog
from lakebed.meta.tasks import TaskQueue
from lakebed.streams.admin.failover import Failover
from lakebed.tables.arrivals import Arrivals
from lakebed.tables.federation.service import Federation
from lakebed.tables.idempotency import IdempotencyKeys
from lakebed.tables.labels.service import Labelling
from lakebed.tables.maintenance.service import TableMaintenance
from lakebed.tables.maintenance.tasks.service import TaskService
from lakebed.tables.policies.attachments import PolicyAttachments
from lakebed.tables.policies.coverage import PolicyCoverage


@dataclass(frozen=True, slots=True)
class AdminServices:
    """Use cases of operators and workers."""

    region: str
    keys: IdempotencyKeys
    maintenance: TableMaintenance
    tasks: TaskService
    queue: TaskQueue
    """Only to wait for work: whatever is done with tasks passes `tasks`."""
    events: EventLog
    audit: EventLog
    trail: AccessTrail
    targets: Targets
    arrivals: Arrivals
    feed: Feed
    event_ids: EventIds
    failover: Failover
    attaching: PolicyAttachments
    coverage: PolicyCoverage
    labelling: Labelling
    federation: Federation
