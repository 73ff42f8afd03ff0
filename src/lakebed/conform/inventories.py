"""Everything that can be printed, by name. No print loads a client; each that claims reads the packaged evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from . import beyond, capabilities, engines, failures
from .evidence import EvidenceSummary
from .live_evidence import evidence_schema
from .profiles import PROFILES, ResolvedProfile, described, find_profile, resolve


@dataclass(frozen=True, slots=True)
class Context:
    """What prints are made from."""

    evidence: EvidenceSummary
    values: Mapping[str, str]
    """The options."""
    catalog_endpoints: Sequence[str] = field(default=())
    """The catalog's routes that this build serves."""
    refused_by_store: Sequence[Mapping[str, str]] = field(default=())
    """What the S3 edge refuses, as it answers for itself."""
    refused_by_catalog: Sequence[Mapping[str, str]] = field(default=())
    """What the catalog's edge refuses of the contract, likewise."""

    @property
    def profile(self) -> ResolvedProfile:
        """The chosen profile with these options. Raises InvalidInput."""
        values = self.values
        return resolve(
            find_profile(values["profile"]),
            values,
            rest_path=values["rest_path"],
            rest_signing_name=values["rest_signing_name"],
        )


Printed = dict[str, Any]  # Any: JSON


def _vendor_profiles(context: Context) -> Printed:
    profile = context.profile
    chosen = {
        **described(find_profile(profile.name)),
        "catalog_uri": profile.catalog_uri,
        "warehouse": profile.warehouse,
        "rest_signing_name": profile.rest_signing_name,
    }
    return {
        "vendor_profiles": [described(profile) for profile in PROFILES.values()],
        "selected_vendor_profile": chosen,
    }


def _unsupported(context: Context) -> Printed:
    return {
        "unsupported_inventory": capabilities.unsupported_inventory(context.evidence, context.catalog_endpoints),
        "s3_unsupported": list(context.refused_by_store),
        "catalog_unsupported": list(context.refused_by_catalog),
        **_grounds(context),
    }


def _grounds(context: Context) -> Printed:
    return {"evidence": context.evidence.described()}


def _claiming(key: str, make: Callable[[EvidenceSummary], object]) -> Callable[[Context], Printed]:
    return lambda context: {key: make(context.evidence), **_grounds(context)}


PRINTS: Final[Mapping[str, tuple[str, Callable[[Context], Printed]]]] = {
    "client-matrix": ("clients, and what their tests covered", _claiming("client_matrix", engines.client_matrix)),
    "vendor-profiles": ("all profiles, and the chosen one with these options", _vendor_profiles),
    "unsupported-inventory": ("what is refused, and how far other capabilities go", _unsupported),
    "production-readiness": (
        "what running it in earnest asks for",
        _claiming("production_readiness", capabilities.production_readiness),
    ),
    "engine-compatibility": (
        "engines and the versions that were tested",
        _claiming("engine_compatibility", engines.engine_compatibility),
    ),
    "production-failure-coverage": (
        "how many cases of failure are covered",
        _claiming("production_failure_coverage", failures.failure_coverage),
    ),
    "engine-matrix": (
        "engines with their settings for this target",
        lambda context: {
            "engine_matrix": engines.engine_matrix(context.evidence, context.values, context.profile),
            **_grounds(context),
        },
    ),
    "vendor-audit": ("profiles, and the tests that ran them", _claiming("vendor_audit", engines.vendor_audit)),
    "live-conformance": (
        "what to run by hand, client by client",
        lambda context: {"live_conformance": engines.live_conformance(context.values, context.profile)},
    ),
    "live-evidence-schema": (
        "the fields of a run's record",
        lambda context: {"live_conformance_evidence_schema": evidence_schema()},
    ),
    "operations-guide": (
        "what an operator does, in order",
        lambda context: {"operations_guide": engines.operations_guide(context.values, context.profile)},
    ),
    "spark-config": (
        "Spark's settings for this target",
        lambda context: {"spark_config": engines.spark_config(context.values, context.profile)},
    ),
    "spark-sql": (
        "statements that try this target from Spark",
        lambda context: {"spark_sql": engines.spark_sql(context.values)},
    ),
    "failure-matrix": ("cases of failure and their tests", _claiming("failure_matrix", failures.failure_matrix)),
    "failure-probes": (
        "requests that must be refused",
        lambda context: {"failure_probes": failures.failure_probes(context.values, context.profile)},
    ),
    "disaster-recovery-rehearsal": (
        "phases of losing a server",
        lambda context: {
            "disaster_recovery_rehearsal": failures.disaster_recovery_rehearsal(context.values, context.profile)
        },
    ),
    "scale-fault-rehearsal": (
        "phases of many writers under faults",
        lambda context: {"scale_fault_rehearsal": failures.scale_fault_rehearsal(context.values)},
    ),
    "beyond": (
        "what other table stores leave unclaimed, and what of it is claimed here",
        lambda context: {
            "beyond": beyond.beyond(context.evidence),
            "beyond_summary": beyond.beyond_summary(context.evidence),
            **_grounds(context),
        },
    ),
}
"""Name behind `--print-`, its help, and how it is made."""
