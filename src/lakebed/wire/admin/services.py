"""What the handlers of the administration's API call besides the catalog's services."""

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
from lakebed.tables.maintenance.service import TableMaintenance
from lakebed.tables.maintenance.tasks.service import TaskService


@dataclass(frozen=True, slots=True)
class AdminServices:
    """Use cases of operators and workers."""

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
