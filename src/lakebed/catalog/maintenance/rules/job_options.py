"""The options of each job: their names, and how their values are parsed.

Policies, tasks and the command line use the same names and the same parsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option
from lakebed.governance.policies import config_options
from lakebed.governance.policies.config_options import FLAG, NAMES, TEXT, OptionValue, ValueParser, choice, whole

__all__ = ["JOB_OPTIONS", "PLANNING_OPTIONS", "as_option", "check_options"]

PLANNING_OPTIONS: Final = frozenset({"interval", "statistics", "statistics-columns", "layout"})
"""Options of policies for the planner, not for the job."""


def _of_policies(options: Mapping[str, config_options.ConfigOption]) -> dict[str, ValueParser]:
    """The options of a policy type under their own names, without the planner's."""
    return {
        name: option.parser
        for name, option in options.items()
        if name == option.canonical_name and name not in PLANNING_OPTIONS
    }


JOB_OPTIONS: Final[Mapping[JobKind, Mapping[str, ValueParser]]] = {
    JobKind.COMPACT: {**_of_policies(config_options.DATA_COMPACTION), "rewrite-all": FLAG},
    JobKind.REWRITE_MANIFESTS: _of_policies(config_options.METADATA_COMPACTION),
    JobKind.EXPIRE_SNAPSHOTS: {**_of_policies(config_options.SNAPSHOT_EXPIRY), "retain-last": whole(1)},
    JobKind.REMOVE_ORPHANS: _of_policies(config_options.ORPHAN_FILE_REMOVAL),
    JobKind.COMPUTE_STATISTICS: {"columns": NAMES, "partition-statistics": FLAG},
    JobKind.IMPORT: {
        "source": TEXT,
        "source-table": TEXT,
        "source-catalog": TEXT,
        "source-uri": TEXT,
        "source-warehouse": TEXT,
        "mode": choice("in-place", "copy"),
        "partition-columns": NAMES,
    },
    JobKind.VERIFY: {"checksums": FLAG, "rows": FLAG, "all-snapshots": FLAG},
    JobKind.REWRITE_LAYOUT: {"target-file-size-bytes": whole(1), "max-file-group-size-bytes": whole(1)},
    JobKind.EXPORT_EVENTS: {"batch-limit": whole(1)},
    JobKind.COPY_RESTRICTED: {},
    JobKind.INGEST: {"batch-limit": whole(1), "batch-bytes": whole(1)},
    JobKind.TIER_STREAM: {"stream": TEXT, "streams": TEXT},
}
"""The options of each job."""


def as_option(value: OptionValue) -> Option:
    """A value as tasks carry it."""
    return list(value) if isinstance(value, tuple) else value


def check_options(job: JobKind, options: Mapping[str, object]) -> dict[str, Option]:
    """Validate options. Raises InvalidInput that names the first invalid one."""
    known = JOB_OPTIONS[job]
    checked: dict[str, Option] = {}
    for name, value in options.items():
        reading = known.get(name)
        if reading is None:
            raise InvalidInput(
                f"{job} has no option {name[:80]!r}; it has {', '.join(known) or 'none'}", argument=name[:80]
            )
        found = reading.read(value)
        if found is None:
            raise InvalidInput(f"{name} must be {reading.expected}. found={str(value)[:80]}", argument=name)
        checked[name] = as_option(found)
    return checked
