"""Removes the files of a table that was dropped with a purge, from external storage.

Other programs may write to the table's directories there. So only files are removed that the table's metadata refers
to, in its own directories: data files unless `gc.enabled` is false, delete files, manifests, statistics and metadata
files. The metadata files are removed last, so that an interrupted purge can be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from lakebed.core.errors import InvalidInput, NotFound, StateConflict
from lakebed.iceberg.metadata import TableMetadata, parse_table

from ...maintenance.reachability.files import Reason
from ...maintenance.reachability.walking import Walker, WalkLimits, walk_root
from ...tables.files import TableFiles, parse_location

_BATCH: Final = 1000
_LIMITS: Final = WalkLimits(manifests=200_000, files=20_000_000)
_GC_ENABLED: Final = "gc.enabled"

Heartbeat = Callable[[], Awaitable[None]]


async def purge_external(
    files: TableFiles, bucket: str, prefixes: Iterable[str], metadata_at: str, heartbeat: Heartbeat
) -> int:
    """Remove the files of a table; the number of removed files. `heartbeat` is called before each request to delete.

    Raises StateConflict if a manifest cannot be read now, Unavailable, Fenced. Nothing is done if the metadata file
    does not exist: then an earlier purge removed the files.
    """
    try:
        document, _ = await files.load(metadata_at)
    except NotFound:
        return 0
    table = parse_table(document)
    reached = await Walker(files, _LIMITS).walk([walk_root(table)])
    unread = [problem for problem in reached.problems if problem.reason is not Reason.MISSING_OBJECT]
    if unread:
        raise StateConflict(
            f"the table's files are not known: a manifest cannot be read. location={unread[0].location}"
            f" reason={unread[0].reason}"
        )
    keeps_data = table.properties.get(_GC_ENABLED, "true").lower() == "false"
    in_order = [
        *([] if keeps_data else [reached.data_files, reached.delete_files]),
        reached.statistics,
        reached.manifests,
        reached.manifest_lists,
        _metadata_files(table),
        [metadata_at],
    ]
    own = tuple(prefixes)
    removed = 0
    for locations in in_order:
        within = sorted(location for location in locations if _is_within(location, bucket, own))
        for start in range(0, len(within), _BATCH):
            await heartbeat()
            await files.remove(within[start : start + _BATCH])
        removed += len(within)
    return removed


def _metadata_files(table: TableMetadata) -> list[str]:
    return [entry.metadata_file for entry in table.metadata_log]


def _is_within(location: str, bucket: str, prefixes: tuple[str, ...]) -> bool:
    try:
        address = parse_location(location)
    except InvalidInput:
        return False
    return address.bucket == bucket and address.key.startswith(prefixes)
