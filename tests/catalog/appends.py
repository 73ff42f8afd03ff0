"""Commits of data: real manifest lists, manifests and data files, in the format of engines."""

from __future__ import annotations

from itertools import count
from typing import Any

from lakebed.catalog.identifiers import Identifier
from lakebed.iceberg.manifests import FileContent, read_manifest_list
from tests.iceberg.manifests.avro_files import a_file, a_manifest, an_entry, list_bytes, manifest_bytes

from .harness import CatalogHarness

_numbers = count(1)


async def appended(catalog: CatalogHarness, identifier: Identifier, *, deletes: bool = False) -> list[dict[str, Any]]:
    """Store the files of a commit that appends one data file, or one delete file; returns its updates."""
    metadata = await catalog.metadata(identifier)
    parent = metadata.current_snapshot
    snapshot_id, sequence = next(_numbers), metadata.last_sequence_number + 1
    folder = metadata.location
    bucket, _, home = folder.removeprefix("s3://").partition("/")
    data, manifest, listing = (
        f"data/{snapshot_id}.parquet",
        f"metadata/{snapshot_id}-m0.avro",
        f"metadata/snap-{snapshot_id}.avro",
    )
    await catalog.store.put(bucket, f"{home}/{data}", b"PAR1" * 8)
    content = FileContent.POSITION_DELETES if deletes else FileContent.DATA
    file = a_file(f"{folder}/{data}", content=content.value, record_count=1, file_size_in_bytes=32)
    entries = manifest_bytes([an_entry(file)], content="deletes" if deletes else "data")
    await catalog.store.put(bucket, f"{home}/{manifest}", entries)
    lines = [
        a_manifest(
            f"{folder}/{manifest}",
            content=int(deletes),
            length=len(entries),
            sequence_number=sequence,
            min_sequence_number=sequence,
            added_snapshot_id=snapshot_id,
            added_files_count=1,
            added_rows_count=1,
        )
    ]
    if parent is not None and parent.manifest_list is not None:
        lines += read_manifest_list(await catalog.files.read(parent.manifest_list))
    await catalog.store.put(bucket, f"{home}/{listing}", list_bytes(lines))
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence,
        "timestamp-ms": catalog.store.clock.now_ms(),
        "manifest-list": f"{folder}/{listing}",
        "summary": {"operation": "delete" if deletes else "append"},
        "schema-id": metadata.current_schema_id,
        **({} if parent is None else {"parent-snapshot-id": parent.snapshot_id}),
    }
    return [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
    ]
