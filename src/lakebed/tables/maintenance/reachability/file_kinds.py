"""What a file in a table's directories is, told by its name alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..jobs.model import ObjectKind

__all__ = ["kind_of"]

_METADATA: Final = (".metadata.json", ".metadata.json.gz")
_TABLES: Final = (".parquet", ".orc", ".avro", ".puffin", ".stats")
_DELETES: Final = ("delete", "deletes")


def kind_of(key: str, metadata_folders: Sequence[str]) -> ObjectKind | None:
    """The kind of a file; None for one that is not named as those of tables are, and that is nobody's to judge.

    What is referred to is known from manifests. This is for the rest, so that a note that somebody left in the folder
    is not taken for a data file that nobody needs.
    """
    folder, _, name = key.rpartition("/")
    if name.endswith(_METADATA):
        return ObjectKind.METADATA_FILE
    if not name.endswith(_TABLES):
        return None
    if name.endswith(".stats"):
        return ObjectKind.STATISTICS_FILE
    if any(key.startswith(prefix) for prefix in metadata_folders):
        if not name.endswith(".avro"):
            return ObjectKind.STATISTICS_FILE
        return ObjectKind.MANIFEST_LIST if name.startswith("snap-") else ObjectKind.MANIFEST_FILE
    if name.endswith(".puffin") or "-deletes." in name or any(part in _DELETES for part in folder.split("/")):
        return ObjectKind.DELETE_FILE
    return ObjectKind.DATA_FILE
