"""The tree of settings: what can be set, its type, its bounds and its default.

This is the only list. A key appears here when the build honours it, and not before: everything else refuses to start.
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
"""A duration that is not zero, because something repeats or gives up after it."""

Count: TypeAlias = Annotated[int, Within(1)]
"""How many of something: at least one."""

MIN_PART_BYTES: Final = 5 * MIB
MAX_PART_BYTES: Final = 5 * GIB
DEFAULT_LISTEN: Final = HostPort("127.0.0.1", 9000)
NO_SECRET: Final = Secret("")


class LogLevel(StrEnum):
    """The least important record that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LoggingFormat(StrEnum):
    """What a log line looks like."""

    JSON = "json"
    TEXT = "text"


class StorageKind(StrEnum):
    """Where bytes live. The memory store is not offered: tests hand it in, and nobody's data should depend on it."""

    FOLDER = "folder"
    S3 = "s3"


class PipelineDelegation(StrEnum):
    """How Spark gets at the files of tables. It is never given a lasting key to them."""

    VENDED = "vended-credentials"
    """With keys to one table at a time that the catalog hands out."""

    SIGNED = "remote-signing"
    """Without any: the catalog signs each of its requests."""


class EmbeddedWorker(StrEnum):
    """Whether a server does the work itself that its tables need."""

    ON_DEMAND = "on-demand"
    """It starts a worker with a Spark of its own when there are tasks."""

    OFF = "off"
    """It leaves them to workers that are started elsewhere."""


class ConditionalPut(StrEnum):
    """Whether the S3 store behind us can create and replace under a condition."""

    AUTO = "auto"
    """Find out with a probe at start."""

    DISABLED = "disabled"
    """It cannot: whatever needs a conditional write refuses."""


class CommitValidation(StrEnum):
    """How far the snapshots of a table commit are followed before it becomes visible."""

    STANDARD = "standard"
    """What the commit itself brings. The cost is that of the change, not of the table."""

    STRICT = "strict"
    """Also what is taken over from the parent: every manifest is read and every live file looked for."""


def _default_workers() -> int:
    return min(len(os.sched_getaffinity(0)), 4)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The process and its listener."""

    data: Path = Path("lakebed-data")
    """Folder of everything that is kept: metadata, bytes, generated secrets."""

    listen: HostPort = DEFAULT_LISTEN
    catalog_listen: HostPort | None = None
    """Where the catalog, the management and administration APIs, health and metrics are served, apart from S3 and STS.
    Not set: on `listen`, where their paths reserve some bucket names and keys."""

    workers: Count = field(default_factory=_default_workers)
    """Processes that serve; by default one a CPU, at most four."""

    insecure_http: bool = False
    """Allow plain HTTP beyond this machine."""

    tls_cert: Path | None = None
    tls_key: Path | None = None
    domains: tuple[str, ...] = ()
    """Host names under which `BUCKET.DOMAIN` addresses a bucket (virtual-host style)."""

    region: str = "us-east-1"
    max_connections: Count = 4096
    """Connections open at once, shared evenly among the workers; more are told to come back later (503)."""

    shutdown_grace: Seconds = 30.0
    """How long requests under way may take to finish after a stop was asked for."""

    hang_timeout: Annotated[float, SECONDS, Within(5, 3_600)] = 10.0
    """How long a process of the server may go without a heartbeat before it is killed and replaced. Longer ones are for
    debuggers, and for machines that stall."""

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
    """What is told, and how."""

    level: LogLevel = LogLevel.INFO
    format: LoggingFormat = LoggingFormat.JSON
    access: bool = False
    """A line for each request."""


@dataclass(frozen=True, slots=True)
class MetaSettings:
    """The transactional metadata store."""

    url: Secret = NO_SECRET
    """Empty: SQLite in the data folder. Otherwise `postgresql://…`, which may hold a password: hence a secret."""

    pool_size: Count = 8
    """Connections of each process to PostgreSQL: of each worker, and of the one that delivers events."""

    event_retention: Seconds = 7 * 86_400.0
    """How long events stay that everybody who has a cursor has read, for those who come later."""

    trim_interval: Pause = 600.0
    """How often older ones are removed."""

    @property
    def is_postgres(self) -> bool:
        """Whether a PostgreSQL is named; otherwise SQLite is meant."""
        return bool(self.url)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """How failed calls to the S3 store behind us are repeated."""

    max_attempts: Count = 5
    timeout: Pause = 60.0
    """All attempts together, pauses included."""

    base: Pause = 0.1
    """The first pause; each further one doubles, with jitter."""

    max: Pause = 10.0
    """The longest pause."""


@dataclass(frozen=True, slots=True)
class S3StorageSettings:
    """The S3 store behind us, when bytes live in one."""

    bucket: str = ""
    prefix: str = ""
    """Joined to keys with one `/`."""

    region: str | None = None
    """Not set: as the AWS environment or profile says; with an endpoint, `us-east-1`."""

    endpoint: str | None = None
    path_style: bool | None = None
    """Not set: path style exactly when an endpoint is set."""

    allow_http: bool = False
    access_key_id: str | None = None
    """Not set: the usual AWS credential chain."""

    secret_access_key: Secret | None = None
    session_token: Secret | None = None
    max_concurrency: Count = 64
    """Requests under way at once in each worker."""

    multipart_part_size: Annotated[int, BYTES, Within(MIN_PART_BYTES, MAX_PART_BYTES)] = 8 * MIB
    max_in_flight: Count = 4
    """Parts of one upload under way at once."""

    memory_budget: ByteCount = 256 * MIB
    """Bytes of parts that all uploads of a worker may hold."""

    connect_timeout: Pause = 5.0
    read_timeout: Pause = 60.0
    conditional_put: ConditionalPut = ConditionalPut.AUTO
    retry: RetrySettings = RetrySettings()

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket goes into the path: as set, or because an endpoint is."""
        return self.endpoint is not None if self.path_style is None else self.path_style


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The byte store."""

    kind: StorageKind = StorageKind.FOLDER
    s3: S3StorageSettings = S3StorageSettings()


@dataclass(frozen=True, slots=True)
class ObjectsSettings:
    """Buckets and objects."""

    inline_max: Annotated[int, BYTES, Within(0, MIB)] = 64 * KIB
    """Bodies up to this size live in the metadata store: one write instead of two."""

    sweep_interval: Pause = 3_600.0
    orphan_window: Annotated[float, SECONDS, Within(1)] = 86_400.0
    """How long bytes stay that were stored and that no object refers to: crashes leave some."""

    lifecycle_interval: Pause = 3_600.0
    lifecycle_day: Pause = 86_400.0
    """Length of a `Days` in lifecycle rules: shorter ones are for trying rules out."""

    default_encryption: bool = False
    """Encrypt new objects of buckets that say nothing about it."""


@dataclass(frozen=True, slots=True)
class EncryptionSettings:
    """Master keys of server-side encryption. Empty: one is generated at first start."""

    keys: Mapping[str, Secret] = field(default_factory=dict)
    """Key id to base64 of 32 bytes. Keys that were ever active stay: without them a server does not start.

    Servers on one metadata store need the same keys, and a new one on all of them before it is active on any.
    """

    active: str = ""
    """Id of the key for new objects; may be left out when there is only one."""


@dataclass(frozen=True, slots=True)
class RootSettings:
    """Credentials that pass every policy. Not set: generated at first start."""

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
    """What clients are given that request access to the files of tables: temporary credentials or signatures
    (`vended-credentials`), signatures alone (`remote-signing`), or neither (`none`). A catalog's property
    `access-delegation` can narrow it."""

    client_locations: bool = True
    """Whether clients choose locations of tables. A catalog's property `client-locations` can refuse them."""

    credential_ttl: Seconds = 900.0
    """How long vended credentials are valid, from 1m to 1h: other values are clamped, with a warning."""

    trace_retention: Seconds = 7 * 86_400.0
    """How long after their end it is remembered to whom keys and signatures were handed out, and what was done with
    them."""

    validation: CommitValidation = CommitValidation.STANDARD
    """What is checked of a commit. The strict level reads all of a table on each; it takes no encrypted manifests."""

    s3_endpoint: str | None = None
    """URL of the object store as clients of the catalog are told it. Not set: where they have found the catalog."""

    chore_interval: Pause = 60.0
    """How often it is looked which tables need maintenance, and what of dropped tables and old answers is over."""

    maintenance_safety_window: Annotated[float, SECONDS, Within(1)] = 900.0
    """How old a file is at least that maintenance removes: longer than any writer takes from its first file to its
    commit. Shorter ones are for trying maintenance out."""

    bridge_interval: Pause = 5.0
    """How often it is looked which other catalogs are to be asked for news; each has its own interval besides."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The work that Spark does for tables."""

    master: str = "local[*]"
    """Where Spark runs: `local[*]`, `spark://…`, `k8s://…`, `yarn`, or `sc://…` for a Spark Connect server."""

    schedule_interval: Pause = 300.0
    """How often all tables are looked at for what their policies ask for; one that was committed to, sooner."""

    debounce: Seconds = 10.0
    """How long after a commit: what follows within this time is seen to together."""

    embedded_worker: EmbeddedWorker = EmbeddedWorker.ON_DEMAND
    endpoint: str | None = None
    """URL at which that worker and its Spark reach the server. Not set: where it listens."""

    lease: Annotated[float, SECONDS, Within(1, 3_600)] = 60.0
    """How long a worker that gives no sign of life has its task; then another takes over."""

    delegation: PipelineDelegation = PipelineDelegation.VENDED
    driver_memory: Annotated[int, BYTES, Within(256 * MIB)] = 2 * GIB
    """Memory of Spark's driver, which with `local[*]` does all the work."""

    spark: Mapping[str, Secret] = field(default_factory=dict)
    """Further properties of Spark by their own names, such as `"spark.executor.memory" = "8g"`. Secrets, because
    passwords of other catalogs may be among them."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, read once and passed on."""

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
    select: SelectSettings = field(default_factory=SelectSettings)
    streams: StreamsSettings = field(default_factory=StreamsSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    listeners: ListenersSettings = field(default_factory=ListenersSettings)
    targets: TargetsSettings = field(default_factory=TargetsSettings)
