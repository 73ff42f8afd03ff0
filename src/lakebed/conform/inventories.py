"""The reports of `lakebed conform --print-…`. They load no client; claims come from the packaged evidence."""

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
    """The inputs of reports."""

    evidence: EvidenceSummary
    values: Mapping[str, str]
    """Values of the options."""
    catalog_endpoints: Sequence[str] = field(default=())
    """Catalog routes of this build."""
    refused_by_store: Sequence[Mapping[str, str]] = field(default=())
    """Unsupported features of the S3 API."""
    refused_by_catalog: Sequence[Mapping[str, str]] = field(default=())
    """Unsupported features of the catalog APIs."""

    @property
    def profile(self) -> ResolvedProfile:
        """The selected profile, resolved with the options. Raises InvalidInput."""
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
        **_evidence(context),
    }


def _evidence(context: Context) -> Printed:
    return {"evidence": context.evidence.described()}


def _claims(key: str, make: Callable[[EvidenceSummary], object]) -> Callable[[Context], Printed]:
    return lambda context: {key: make(context.evidence), **_evidence(context)}


PRINTS: Final[Mapping[str, tuple[str, Callable[[Context], Printed]]]] = {
    "client-matrix": ("clients and their test coverage", _claims("client_matrix", engines.client_matrix)),
    "vendor-profiles": ("all profiles, and the selected one resolved", _vendor_profiles),
    "unsupported-inventory": ("unsupported features, and the status of other capabilities", _unsupported),
    "production-readiness": (
        "capabilities for production",
        _claims("production_readiness", capabilities.production_readiness),
    ),
    "engine-compatibility": (
        "engines and tested versions",
        _claims("engine_compatibility", engines.engine_compatibility),
    ),
    "production-failure-coverage": (
        "test coverage of failure cases",
        _claims("production_failure_coverage", failures.failure_coverage),
    ),
    "engine-matrix": (
        "engines and their settings for this target",
        lambda context: {
            "engine_matrix": engines.engine_matrix(context.evidence, context.values, context.profile),
            **_evidence(context),
        },
    ),
    "vendor-audit": ("profiles and their tests", _claims("vendor_audit", engines.vendor_audit)),
    "live-conformance": (
        "manual test commands by client",
        lambda context: {"live_conformance": engines.live_conformance(context.values, context.profile)},
    ),
    "live-evidence-schema": (
        "fields of the evidence record of a run",
        lambda context: {"live_conformance_evidence_schema": evidence_schema()},
    ),
    "operations-guide": (
        "steps for operators",
        lambda context: {"operations_guide": engines.operations_guide(context.values, context.profile)},
    ),
    "spark-config": (
        "Spark configuration for this target",
        lambda context: {"spark_config": engines.spark_config(context.values, context.profile)},
    ),
    "spark-sql": (
        "SQL statements to test this target from Spark",
        lambda context: {"spark_sql": engines.spark_sql(context.values)},
    ),
    "failure-matrix": ("failure cases and their tests", _claims("failure_matrix", failures.failure_matrix)),
    "failure-probes": (
        "requests that must fail",
        lambda context: {"failure_probes": failures.failure_probes(context.values, context.profile)},
    ),
    "disaster-recovery-rehearsal": (
        "disaster recovery rehearsal",
        lambda context: {
            "disaster_recovery_rehearsal": failures.disaster_recovery_rehearsal(context.values, context.profile)
        },
    ),
    "scale-fault-rehearsal": (
        "scale and fault rehearsal",
        lambda context: {"scale_fault_rehearsal": failures.scale_fault_rehearsal(context.values)},
    ),
    "beyond": (
        "features that other table stores do not claim, and their status here",
        lambda context: {
            "beyond": beyond.beyond(context.evidence),
            "beyond_summary": beyond.beyond_summary(context.evidence),
            **_evidence(context),
        },
    ),
}
"""Reports by the suffix of `--print-`, with help text and builder."""
