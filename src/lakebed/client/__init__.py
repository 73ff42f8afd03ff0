"""The Python client: tasks, events, tables, policies and labels of a server, over its public APIs.

    with LakebedClient("http://127.0.0.1:9000") as lake:
        for health in lake.tables.healths("warehouse"):
            print(health.ref, health.small_files)

Depends on the standard library and msgspec alone. Errors are those of `lakebed.core.errors`.
"""

from __future__ import annotations

from types import TracebackType

from lakebed.core.secrets import Secret

from .access import ServerAccess, find_access
from .adoption import AdoptedTable, AdoptionOutcome, TableAdoption
from .connection import ServerConnection
from .events import Event, EventPage, Events
from .labels import LabelStore
from .objects import Objects
from .policies import Policies
from .selects import ObjectEntry, SelectClient, SelectResult, SelectStats
from .streams.servers import StreamServers
from .tables import PendingFile, PendingFiles, TableHealth, TableRef, Tables
from .targets import Targets, TargetStatus
from .tasks import LeasedTask, Task, Tasks, TaskState
from .trace import AccessTrace, Delegation, ObjectAccess
from .webhooks import SeenMessages, WebhookMessage, verify_webhook

__all__ = [
    "AdoptedTable",
    "AdoptionOutcome",
    "Delegation",
    "Event",
    "EventPage",
    "LakebedClient",
    "LeasedTask",
    "ObjectAccess",
    "ObjectEntry",
    "PendingFile",
    "SeenMessages",
    "SelectResult",
    "SelectStats",
    "ServerAccess",
    "TableHealth",
    "TableRef",
    "TargetStatus",
    "Task",
    "TaskState",
    "WebhookMessage",
    "verify_webhook",
]


class LakebedClient:
    """Client of a server. Thread-safe. Holds connections: use it as a context manager, or close it."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        access: ServerAccess | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | Secret | None = None,
        session_token: str | Secret | None = None,
        region: str | None = None,
        ca_bundle: str | None = None,
        s3_endpoint: str | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Opens no connection yet. `find_access` completes arguments from the environment. Raises InvalidSetting."""
        self.access = access or find_access(
            endpoint,
            access_key_id=access_key_id,
            secret_access_key=secret_access_key,
            session_token=session_token,
            region=region,
            ca_bundle=ca_bundle,
            s3_endpoint=s3_endpoint,
        )
        self._connection = ServerConnection(self.access, timeout_seconds=timeout_seconds)
        self._s3 = ServerConnection(self.access.s3, timeout_seconds=timeout_seconds)
        self.tasks = Tasks(self._connection)
        self.events = Events(self._connection)
        self.audit = Events(self._connection, "/lakebed/v1/audit")
        self.tables = Tables(self._connection)
        self.policies = Policies(self._connection)
        self.labels = LabelStore(self._connection)
        self.adoption = TableAdoption(self._connection)
        self.selects = SelectClient(self._s3)
        self.trace = AccessTrace(self._connection)
        self.targets = Targets(self._connection)
        self.arrivals = PendingFiles(self._connection)
        self.objects = Objects(self._s3)
        self.stream_servers = StreamServers(self._connection)

    def close(self) -> None:
        """Close idle connections."""
        self._connection.close()
        self._s3.close()

    def __enter__(self) -> LakebedClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
