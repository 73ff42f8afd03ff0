from __future__ import annotations

import pytest

from lakebed.catalog.maintenance.reachability.files import ObjectKind, kind_of

FOLDERS = ("t/metadata/", "elsewhere/")


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("t/metadata/00001-a.metadata.json", ObjectKind.METADATA_FILE),
        ("t/metadata/00001-a.gz.metadata.json", ObjectKind.METADATA_FILE),
        ("t/metadata/v1.metadata.json.gz", ObjectKind.METADATA_FILE),
        ("t/x.metadata.json", ObjectKind.METADATA_FILE),
        ("t/metadata/snap-1-2.avro", ObjectKind.MANIFEST_LIST),
        ("t/metadata/a-m0.avro", ObjectKind.MANIFEST_FILE),
        ("elsewhere/a-m0.avro", ObjectKind.MANIFEST_FILE),
        ("t/metadata/partition-stats-1.parquet", ObjectKind.STATISTICS_FILE),
        ("t/metadata/1.stats", ObjectKind.STATISTICS_FILE),
        ("t/metadata/1.puffin", ObjectKind.STATISTICS_FILE),
        ("t/data/a.parquet", ObjectKind.DATA_FILE),
        ("t/data/region=eu/a.orc", ObjectKind.DATA_FILE),
        ("t/data/0110/1010/a.avro", ObjectKind.DATA_FILE),
        ("t/data/a-00001-deletes.parquet", ObjectKind.DELETE_FILE),
        ("t/delete/a.parquet", ObjectKind.DELETE_FILE),
        ("t/data/v.puffin", ObjectKind.DELETE_FILE),
        ("t/metadata/version-hint.text", None),
        ("t/data/_SUCCESS", None),
        ("t/data/notes.md", None),
        ("t/metadata/", None),
    ],
)
def test_file_kinds_follow_from_names(key: str, kind: ObjectKind | None) -> None:
    assert kind_of(key, FOLDERS) is kind
