"""The work that Spark does for tables: what there is, and how one piece of it is ordered.

An order travels as JSON: in the task queue, over the wire and in reports. Its keys are the words that policies and
the command line use.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec


class JobKind(StrEnum):
    """A job, and the kind of its tasks in the queue."""

    COMPACT = "compact-table"
    REWRITE_MANIFESTS = "rewrite-manifests"
    EXPIRE_SNAPSHOTS = "expire-snapshots"
    REMOVE_ORPHANS = "remove-orphans"
    COMPUTE_STATISTICS = "compute-statistics"
    IMPORT = "import-table"
    VERIFY = "verify-table"
    REWRITE_LAYOUT = "rewrite-layout"
    EXPORT_EVENTS = "export-events"
    COPY_RESTRICTED = "copy-restricted"
    INGEST = "ingest-files"
    TIER_STREAM = "tier-stream"


Option: TypeAlias = str | int | float | bool | list[str]


class PolicyOrigin(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The policy by which a task was planned, and why it holds for the table."""

    type: str
    name: str
    namespace: tuple[str, ...]
    """Where the policy lives."""
    version: int
    attached_to: str
    """What it is attached to, for people: `catalog`, `namespace a.b` or `table a.b.t`."""
    inherited: bool


class Cost(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a task is expected to take."""

    input_files: int
    input_bytes: int
    estimated_seconds: float


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """What a worker is to do, to which table, and why."""

    job: JobKind
    warehouse: str = ""
    namespace: tuple[str, ...] = ()
    table: str = ""
    entry: str = ""
    """The table's id in the catalog: a table that was renamed is still this one."""
    options: dict[str, Option] = {}
    reason: str = ""
    policy: PolicyOrigin | None = None
    cost: Cost | None = None
    requested_by: str = ""


COPY_PROPERTY: Final = "lakebed.restricted-copy"
"""The property of a table that is a copy for some: a `CopySpec`."""


class CopySpec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What a copy of what some see of a table is made of. The server writes it into the copy, the job does it."""

    namespace: tuple[str, ...]
    table: str
    snapshot: int
    columns: tuple[str, ...]
    """An expression for each column of the copy, in Spark's SQL."""
    condition: str
    """Which rows, likewise."""


def encode_copy(spec: CopySpec) -> str:
    """The order as a property.

    In hexadecimal digits: Spark does not show properties in which it finds a word such as `token` or `url`.
    """
    return msgspec.json.encode(spec).hex()


def decode_copy(text: str) -> CopySpec:
    """The order in a property. Raises ValueError."""
    try:
        return msgspec.json.decode(bytes.fromhex(text), type=CopySpec)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


encode_spec = msgspec.json.Encoder().encode
decode_spec = msgspec.json.Decoder(TaskSpec).decode
