"""Tables for planning, in memory: metadata with summaries as of engines, live files, and policies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.catalog.catalogs.service import placeholder_catalog
from lakebed.catalog.entries import LiveEntry
from lakebed.catalog.maintenance.reachability.walking import LiveFiles, ReachabilityProblem
from lakebed.catalog.maintenance.rules.job_rules import TableState
from lakebed.catalog.model import Entry, EntryKind, Namespace
from lakebed.core.ids import BucketId
from lakebed.governance.policies import AttachmentTarget, EffectivePolicy, Policy, PolicyTargetKind
from lakebed.iceberg.manifests import DataFile, ManifestFile
from lakebed.iceberg.metadata import TableMetadata, parse_table
from lakebed.objects.buckets.bucket import Bucket
from tests.catalog.validation.lake import Lake
from tests.iceberg.manifests.avro_files import a_file, a_manifest

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
MIB = 1024 * 1024

COMPACTION = "system.data-compaction"
MANIFESTS = "system.metadata-compaction"
ORPHANS = "system.orphan-file-removal"
EXPIRY = "system.snapshot-expiry"


def a_table(*summaries: Mapping[str, str], ages_ms: Sequence[int] = (), **document: Any) -> TableMetadata:
    """A table with a snapshot for each summary, oldest first; of the given ages, or a minute apart."""
    whole: dict[str, Any] = {**Lake().document}
    del whole["next-row-id"]
    snapshots = []
    for number, summary in enumerate(summaries):
        age_ms = ages_ms[number] if number < len(ages_ms) else 60_000
        snapshots.append(
            {
                "snapshot-id": 100 + number,
                "sequence-number": number + 1,
                "timestamp-ms": NOW_MS - age_ms,
                "manifest-list": f"s3://lake/t/metadata/snap-{100 + number}.avro",
                "summary": {"operation": "append", **summary},
                **({"parent-snapshot-id": 99 + number} if number else {}),
            }
        )
    whole["snapshots"] = snapshots
    whole["last-sequence-number"] = len(snapshots)
    if snapshots:
        whole["current-snapshot-id"] = snapshots[-1]["snapshot-id"]
    return parse_table(json.dumps(whole | {key.replace("_", "-"): one for key, one in document.items()}).encode())


def totals(files: int, size: int, **more: int) -> dict[str, str]:
    """The summary of a table with a number of data files; `_` in other names becomes `-`."""
    numbers = {
        "total-data-files": files,
        "total-files-size": size,
        "total-records": files * 100,
        "total-delete-files": 0,
        "total-position-deletes": 0,
        "total-equality-deletes": 0,
    }
    numbers |= {key.replace("_", "-"): one for key, one in more.items()}
    return {key: str(one) for key, one in numbers.items()}


def known(token: str = "token", created_ms: int = NOW_MS - 10 * DAY_MS) -> LiveEntry:
    """The live entry of a table."""
    bucket = Bucket(BucketId(1), "lake", "0", "r", 0, "", b"\x80")
    entry = Entry(
        "e", EntryKind.TABLE, 1, 1, "t", "u", 2, "s3://lake/t", "", token, 1, created_ms, created_ms, protected=False
    )
    return LiveEntry(placeholder_catalog(bucket, bucket.name), Namespace(1, "ns", b""), entry)


def subject(table: TableMetadata, *, now_ms: int = NOW_MS, token: str = "token", **more: Any) -> TableState:
    """A table state for planning."""
    return TableState(known(token), table, now_ms, **more)


def live(
    *sizes: int,
    deletes: Sequence[DataFile] = (),
    manifests: int = 1,
    problems: Sequence[ReachabilityProblem] = (),
    **facts: Any,
) -> LiveFiles:
    """Live data files of these sizes, a hundred rows each."""
    data = [
        a_file(f"s3://lake/t/data/{number}.parquet", file_size_in_bytes=size, record_count=100, **facts)
        for number, size in enumerate(sizes)
    ]
    return LiveFiles(data, list(deletes), list(problems), tuple(lines(manifests)))


def lines(count: int, length: int = 10_000, **facts: Any) -> list[ManifestFile]:
    """Manifests of one length."""
    shown: dict[str, Any] = {"added_files_count": 1, "existing_files_count": 0, **facts}
    return [a_manifest(f"s3://lake/t/metadata/{number}-m0.avro", length=length, **shown) for number in range(count)]


def applicable(
    kind: str = COMPACTION,
    *,
    enable: bool = True,
    version: int = 3,
    parameters: Mapping[str, str] | None = None,
    inherited: bool = True,
    content: str | None = None,
    **config: Any,
) -> EffectivePolicy:
    """A policy that applies to the table; `_` in names of its config becomes `-`."""
    document = {"enable": enable, "config": {key.replace("_", "-"): one for key, one in config.items()}}
    policy = Policy(
        id=1,
        namespace=("rules",),
        name="p",
        type=kind,
        inheritable=True,
        description=None,
        content=json.dumps(document) if content is None else content,
        version=version,
        created_ms=0,
        updated_ms=0,
    )
    place = (
        AttachmentTarget(PolicyTargetKind.NAMESPACE, ("ns",))
        if inherited
        else AttachmentTarget(PolicyTargetKind.TABLE, ("ns", "t"))
    )
    return EffectivePolicy(policy, place, inherited=inherited, parameters=parameters or {})
