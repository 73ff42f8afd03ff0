"""Audit records of refused and failed requests, for all protocols."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.governance.refusal_records import RefusalRecord, RefusalRecorder, outcome_of, shortened
from lakebed.wire.http.message import Request

OnRefusal = Callable[[Request, str, str, int, LakebedError], None]
"""Called with a refused request, the route's name, its subject, the status and the error. Must not block."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_CLAIMED: Final = re.compile(r"Credential=([^/,\s]{1,128})/|X-Amz-Credential=([^/%&]{1,128})(?:/|%2F)")


def refusal_recorder(
    recorder: RefusalRecorder, edge: str, operations: Mapping[str, str], *, failed_changes: bool = True
) -> OnRefusal:
    """Records the refusals of one protocol; `operations` are by route name.

    `failed_changes` is false for S3, where conditional changes often fail.
    """

    def note(request: Request, route: str, subject: str, status: int, error: LakebedError) -> None:
        outcome = outcome_of(error, status, changes=failed_changes and request.method not in _READS)
        if outcome is None:
            return
        attempt = RefusalRecord(
            edge=edge,
            route=route,
            operation=operations.get(route, ""),
            subject=subject,
            principal=request.principal,
            claimed="" if request.principal else claimed_key(request),
            source_ip=request.peer,
            request_id=request.request_id,
            status=status,
            outcome=outcome,
            reason=str(error),
        )
        recorder.record(shortened(attempt))

    return note


def claimed_key(request: Request) -> str:
    """The access key in a request's signature, not verified; empty without one."""
    found = _CLAIMED.search(request.headers.get("authorization", "")) or _CLAIMED.search(request.raw_query)
    return "" if found is None else found[1] or found[2]
