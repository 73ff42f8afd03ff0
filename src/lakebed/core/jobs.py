"""Jobs of the pipeline, and the specification of a maintenance task.

A task specification travels as JSON: in the task queue, over the wire and in reports. Its keys are those of policies
and of the command line.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

import msgspec


class JobKind(StrEnum):
    """A job; also the kind of its tasks in the queue."""

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
    """The policy that led to a task, and why it applies to the table."""

    type: str
    name: str
    namespace: tuple[str, ...]
    """Namespace of the policy."""
    version: int
    attached_to: str
    """The attachment point, for display: `catalog`, `namespace a.b` or `table a.b.t`."""
    inherited: bool


class Cost(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Expected cost of a task."""

    input_files: int
    input_bytes: int
    estimated_seconds: float


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A job on a table, with its options and its reason. Stored and sent as `order`."""

    job: JobKind
    warehouse: str = ""
    namespace: tuple[str, ...] = ()
    table: str = ""
    entry: str = ""
    """The table's id in the catalog. It stays the same when the table is renamed."""
    options: dict[str, Option] = {}
    reason: str = ""
    policy: PolicyOrigin | None = None
    cost: Cost | None = None
    requested_by: str = ""


COPY_PROPERTY: Final = "lakebed.restricted-copy"
"""The table property of a restricted copy: its `CopySpec`, encoded."""


class CopySpec(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """How a restricted copy is computed. The server stores it in the copy's properties; the job reads it there."""

    namespace: tuple[str, ...]
    table: str
    snapshot: int
    columns: tuple[str, ...]
    """A Spark SQL expression for each column of the copy."""
    condition: str
    """The row filter, in Spark SQL."""


def encode_copy(spec: CopySpec) -> str:
    """Encode a specification as a table property.

    Hexadecimal, because Spark hides properties that contain words such as `token` or `url`.
    """
    return msgspec.json.encode(spec).hex()


def decode_copy(text: str) -> CopySpec:
    """Decode the property. Raises ValueError."""
    try:
        return msgspec.json.decode(bytes.fromhex(text), type=CopySpec)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


encode_spec = msgspec.json.Encoder().encode
decode_spec = msgspec.json.Decoder(TaskSpec).decode
