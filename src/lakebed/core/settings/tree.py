"""The settings tree: every setting with its type, bounds and default.

This is the only list. It has only settings that the build honours: a server with any other key refuses to start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from ..delegation import AccessDelegation
from ..secrets import Secret
from ..sizes import GIB, KIB, MIB
from .address import HostPort
from .decisions import DecisionsSettings
from .external_storage import ExternalStorageSettings
from .federation import FederationSettings
from .identities import OidcSettings, TokensSettings
from .kinds import BYTES, SECONDS, Within
from .listeners import ListenersSettings, TargetsSettings
from .selects import SelectSettings
from .streams import StreamsSettings

ByteCount: TypeAlias = Annotated[int, BYTES]
"""A size, written as `8MiB`."""

Seconds: TypeAlias = Annotated[float, SECONDS]
"""A duration, written as `15s`."""

Pause: TypeAlias = Annotated[float, SECONDS, Within(0.01)]
"""A duration above zero, of an interval or a timeout."""

Count: TypeAlias = Annotated[int, Within(1)]
"""A number of at least one."""

MIN_PART_BYTES: Final = 5 * MIB
MAX_PART_BYTES: Final = 5 * GIB
DEFAULT_LISTEN: Final = HostPort("127.0.0.1", 9000)
NO_SECRET: Final = Secret("")


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LoggingFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    TEXT = "text"


class StorageKind(StrEnum):
    """The storage backend. The memory backend is for tests only and cannot be selected."""

    FOLDER = "folder"
    S3 = "s3"


class PipelineDelegation(StrEnum):
    """How Spark accesses table files. It never gets long-lived credentials."""

    VENDED = "vended-credentials"
    """With credentials that the catalog vends per table."""

    SIGNED = "remote-signing"
    """Without credentials: the catalog signs each request."""


class EmbeddedWorker(StrEnum):
    """Whether a server runs maintenance tasks itself."""

    ON_DEMAND = "on-demand"
    """It starts a worker with local Spark when tasks are queued."""

    OFF = "off"
    """Tasks are left to workers started elsewhere."""


class ConditionalPut(StrEnum):
    """Whether the S3 storage backend supports conditional writes."""

    AUTO = "auto"
    """Probed at start."""

    DISABLED = "disabled"
    """Not supported: operations that need a conditional write fail."""


class CommitValidation(StrEnum):
    """How much of a commit's snapshots is validated before it becomes visible."""

    STANDARD = "standard"
    """What the commit adds. The cost grows with the change, not with the table."""

    STRICT = "strict"
    """Also what the snapshot inherits: every manifest is read and every live file must exist."""


def _default_workers() -> int:
    return min(len(os.sched_getaffinity(0)), 4)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server process and its listeners."""

    data: Path = Path("lakebed-data")
    """The data folder: metadata, object data, generated secrets."""

    listen: HostPort = DEFAULT_LISTEN
    catalog_listen: HostPort | None = None
    """A separate listener for the catalog, management and administration APIs, health and metrics. Not set: they are
    served on `listen` beside S3 and STS, where their paths reserve some bucket names and keys."""

    workers: Count = field(default_factory=_default_workers)
    """Worker processes; by default one per CPU, at most four."""

    insecure_http: bool = False
    """Allow plain HTTP on addresses other than loopback."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    domains: tuple[str, ...] = ()
    """Host names under which `BUCKET.DOMAIN` addresses a bucket (virtual-host style)."""

    region: str = "us-east-1"
    max_connections: Count = 4096
    """Open connections of all workers together; further ones get a 503."""

    shutdown_grace: Seconds = 30.0
    """How long requests in flight may take to finish after a stop signal."""

    hang_timeout: Annotated[float, SECONDS, Within(5, 3_600)] = 10.0
    """How long a server process may go without a heartbeat before it is killed and replaced. Raise it for debuggers and
    for machines that stall."""

    @property
    def local_url(self) -> str:
        """The URL of S3 for clients on the same machine."""
        return self.url_of(self.listen.as_local)

    @property
    def local_catalog_url(self) -> str:
        """The URL of the catalog and the other APIs for clients on the same machine."""
        return self.url_of((self.catalog_listen or self.listen).as_local)

    def url_of(self, address: HostPort) -> str:
        """The URL of an address that the server listens at."""
        return f"{'http' if self.tls_cert is None else 'https'}://{address}"


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """Logging."""

    level: LogLevel = LogLevel.INFO
    format: LoggingFormat = LoggingFormat.JSON
    access: bool = False
    """Log a line for each request."""


@dataclass(frozen=True, slots=True)
class MetaSettings:
    """The transactional metadata store."""

    url: Secret = NO_SECRET
    """Empty: SQLite in the data folder. Otherwise `postgresql://…`, which may hold a password: hence a secret."""

    pool_size: Count = 8
    """PostgreSQL connections of each process: of each worker, and of the event delivery process."""

    event_retention: Seconds = 7 * 86_400.0
    """How long events stay in the outbox after every cursor has passed them, for later readers."""

    trim_interval: Pause = 600.0
    """How often older events are removed."""

    @property
    def is_postgres(self) -> bool:
        """Whether the metadata store is PostgreSQL; otherwise it is SQLite."""
        return bool(self.url)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Retries of failed calls to the S3 storage backend."""

    max_attempts: Count = 5
    timeout: Pause = 60.0
    """All attempts together, pauses included."""

    base: Pause = 0.1
    """The first pause; each further one doubles, with jitter."""

    max: Pause = 10.0
    """The longest pause."""


@dataclass(frozen=True, slots=True)
class S3StorageSettings:
    """The S3 storage backend."""

    bucket: str = ""
    prefix: str = ""
    """Joined to keys with one `/`."""

    region: str | None = None
    """Not set: from the AWS environment or profile; with an endpoint, `us-east-1`."""

    endpoint: str | None = None
    path_style: bool | None = None
    """Not set: path style if an endpoint is set."""

    allow_http: bool = False
    access_key_id: str | None = None
    """Not set: the usual AWS credential chain."""

    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    max_concurrency: Count = 64
    """Concurrent requests of each worker."""

    multipart_part_size: Annotated[int, BYTES, Within(MIN_PART_BYTES, MAX_PART_BYTES)] = 8 * MIB
    max_in_flight: Count = 4
    """Concurrent part uploads of one object."""

    memory_budget: ByteCount = 256 * MIB
    """Bytes of parts that all uploads of a worker may buffer."""

    connect_timeout: Pause = 5.0
    read_timeout: Pause = 60.0
    conditional_put: ConditionalPut = ConditionalPut.AUTO
    retry: RetrySettings = RetrySettings()

    @property
    def uses_path_style(self) -> bool:
        """Whether requests are path-style: as set, otherwise if an endpoint is set."""
        return self.endpoint is not None if self.path_style is None else self.path_style


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The storage backend of object data."""

    kind: StorageKind = StorageKind.FOLDER
    s3: S3StorageSettings = S3StorageSettings()


@dataclass(frozen=True, slots=True)
class ObjectsSettings:
    """Buckets and objects."""

    inline_max: Annotated[int, BYTES, Within(0, MIB)] = 64 * KIB
    """Objects up to this size are stored in the metadata store: one write instead of two."""

    sweep_interval: Pause = 3_600.0
    orphan_window: Annotated[float, SECONDS, Within(1)] = 86_400.0
    """How long unreferenced object data stays before the orphan sweep removes it. Crashes leave some."""

    lifecycle_interval: Pause = 3_600.0
    lifecycle_day: Pause = 86_400.0
    """The length of a day in lifecycle rules. Shorten it to try rules out."""

    default_encryption: bool = False
    """Encrypt new objects of buckets without an encryption configuration."""


@dataclass(frozen=True, slots=True)
class EncryptionSettings:
    """Master keys of server-side encryption. Empty: one is generated at first start."""

    keys: Mapping[str, Secret] = field(default_factory=dict)
    """Key id to base64 of 32 bytes. Keep every key that was ever active: without it a server does not start.

    Servers on one metadata store need the same keys. Add a new key on all of them before it is active on any.
    """

    active: str = ""
    """Id of the key for new objects; optional with a single key."""


@dataclass(frozen=True, slots=True)
class RootSettings:
    """Root credentials, which have every permission. Not set: generated at first start."""

    access_key: str | None = None
    secret_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class StsSettings:
    """Temporary credentials."""

    max_duration: Annotated[float, SECONDS, Within(900)] = 43_200.0
    default_duration: Annotated[float, SECONDS, Within(900)] = 3_600.0


@dataclass(frozen=True, slots=True)
class TablesSettings:
    """The table catalog."""

    access_delegation: AccessDelegation = AccessDelegation.VENDED
    """Access delegation to clients of tables: vended credentials and remote signing (`vended-credentials`), remote
    signing alone (`remote-signing`), or neither (`none`). A catalog's property `access-delegation` can narrow it."""

    client_locations: bool = True
    """Whether clients may choose table locations. A catalog's property `client-locations` can forbid it."""

    credential_ttl: Seconds = 900.0
    """How long vended credentials are valid, from 1m to 1h: other values are clamped, with a warning."""

    trace_retention: Seconds = 7 * 86_400.0
    """How long records of vended credentials and signatures, and of their use, stay after they expire."""

    validation: CommitValidation = CommitValidation.STANDARD
    """Validation level of commits. `strict` reads the whole table on each commit; it rejects encrypted manifests."""

    s3_endpoint: str | None = None
    """S3 endpoint that the catalog returns to clients. Not set: the host at which they reached the catalog."""

    maintenance_interval: Pause = 60.0
    """Interval of the periodic jobs of the catalog: maintenance jobs, dropped tables, expired rows."""

    maintenance_safety_window: Annotated[float, SECONDS, Within(1)] = 900.0
    """Minimum age of files that maintenance removes: longer than any writer takes from its first file to its commit.
    Shorten it to try maintenance out."""

    bridge_interval: Pause = 5.0
    """How often the server checks which external catalogs are due for polling; each has its own interval."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Table maintenance on Spark."""

    master: str = "local[*]"
    """Where Spark runs: `local[*]`, `spark://…`, `k8s://…`, `yarn`, or `sc://…` for a Spark Connect server."""

    schedule_interval: Pause = 300.0
    """How often the scheduler checks all tables against their policies. A commit schedules its table sooner."""

    debounce: Seconds = 10.0
    """How long after a commit its table is planned, so that several commits are planned together."""

    embedded_worker: EmbeddedWorker = EmbeddedWorker.ON_DEMAND
    endpoint: str | None = None
    """URL at which that worker and its Spark reach the server. Not set: the listener."""

    lease: Annotated[float, SECONDS, Within(1, 3_600)] = 60.0
    """Task lease: after this time without a heartbeat another worker takes the task over."""

    delegation: PipelineDelegation = PipelineDelegation.VENDED
    driver_memory: Annotated[int, BYTES, Within(256 * MIB)] = 2 * GIB
    """Memory of the Spark driver, which runs everything with `local[*]`."""

    spark: Mapping[str, Secret] = field(default_factory=dict)
    """Further Spark properties, such as `"spark.executor.memory" = "8g"`. Secrets, because they may hold passwords of
    other catalogs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, read once at start."""

    server: ServerSettings = field(default_factory=ServerSettings)
    log: LoggingSettings = LoggingSettings()
    meta: MetaSettings = MetaSettings()
    storage: StorageSettings = StorageSettings()
    objects: ObjectsSettings = ObjectsSettings()
    encryption: EncryptionSettings = field(default_factory=EncryptionSettings)
    root: RootSettings = RootSettings()
    sts: StsSettings = StsSettings()
    tokens: TokensSettings = field(default_factory=TokensSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    decisions: DecisionsSettings = field(default_factory=DecisionsSettings)
    tables: TablesSettings = TablesSettings()
    federation: FederationSettings = field(default_factory=FederationSettings)
    external_storage: ExternalStorageSettings = field(default_factory=ExternalStorageSettings)
    select: SelectSettings = field(default_factory=SelectSettings)
    streams: StreamsSettings = field(default_factory=StreamsSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    listeners: ListenersSettings = field(default_factory=ListenersSettings)
    targets: TargetsSettings = field(default_factory=TargetsSettings)
