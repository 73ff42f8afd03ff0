"""Parses scan planning requests."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.expressions.binding import ColumnNames, bind
from lakebed.iceberg.expressions.bound import BoundExpression
from lakebed.iceberg.expressions.parsing import parse_expression
from lakebed.iceberg.expressions.unbound import TRUE

__all__ = ["ScanRequest", "bind_filter", "parse_request"]

_SnapshotId = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """A scan of one snapshot, or of the appends between two.

    `select` does not affect planning and is not validated: clients name metadata columns in it, and columns that are
    newer than the snapshot.
    """

    snapshot_id: _SnapshotId | None = None
    start_snapshot_id: _SnapshotId | None = None
    """Exclusive."""
    end_snapshot_id: _SnapshotId | None = None
    """Inclusive."""
    select: tuple[str, ...] | None = None
    filter: bool | dict[str, object] | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    stats_fields: tuple[str | None, ...] | None = None
    """Columns whose statistics the response includes. Some clients send null for a dropped one."""
    min_rows_requested: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None

    @property
    def is_incremental(self) -> bool:
        """Whether it scans the appends between two snapshots."""
        return self.start_snapshot_id is not None


def parse_request(document: object) -> ScanRequest:
    """Read a request from its decoded JSON. Raises InvalidInput that names the field."""
    if isinstance(document, dict):
        # Clients send null for unset fields.
        document = {name: value for name, value in document.items() if value is not None}
    try:
        request = msgspec.convert(document, ScanRequest)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"invalid scan planning request: {error}") from error
    given = request.start_snapshot_id is not None, request.end_snapshot_id is not None
    if any(given) and request.snapshot_id is not None:
        raise InvalidInput(
            "snapshot-id cannot be combined with start-snapshot-id or end-snapshot-id",
            argument="snapshot-id",
        )
    if given == (True, False):
        raise InvalidInput("start-snapshot-id requires an end-snapshot-id", argument="end-snapshot-id")
    if given == (False, True):
        raise InvalidInput("end-snapshot-id requires a start-snapshot-id", argument="start-snapshot-id")
    return request


def bind_filter(request: ScanRequest, names: ColumnNames) -> BoundExpression:
    """The request's filter, bound to the columns of a schema. Raises InvalidInput, NotSupported."""
    return TRUE if request.filter is None else bind(parse_expression(request.filter), names)
