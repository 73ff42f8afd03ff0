"""Policies and their mappings as JSON documents."""

from __future__ import annotations

from typing import Any

from lakebed.governance.policies import AttachmentTarget, EffectivePolicy, Policy, PolicyTargetKind
from lakebed.governance.policies.rows import PolicyMapping


def policy_document(policy: Policy) -> dict[str, Any]:
    """A policy as Polaris specifies it."""
    document: dict[str, Any] = {
        "policy-type": policy.type,
        "inheritable": policy.inheritable,
        "name": policy.name,
        "content": policy.content,
        "version": policy.version,
    }
    if policy.description is not None:
        document["description"] = policy.description
    return document


def mapping_document(target: PolicyMapping) -> dict[str, Any]:
    """A target that a policy is attached to."""
    return {
        "target": target_document(target.target),
        "attached-to": str(target.target),
        "parameters": target.parameters,
        "attached-at-ms": target.attached_ms,
    }


def applicable_document(one: EffectivePolicy) -> dict[str, Any]:
    """An applicable policy as Polaris specifies it, with the reason why it applies."""
    return policy_document(one.policy) | {
        "inherited": one.inherited,
        "namespace": one.policy.namespace,
        "attached-to": str(one.target),
        "target": target_document(one.target),
        "parameters": one.parameters,
        "overrides": [
            {
                "namespace": other.policy.namespace,
                "name": other.policy.name,
                "version": other.policy.version,
                "attached-to": str(other.target),
                "target": target_document(other.target),
            }
            for other in one.overrides
        ],
        "reason": one.reason,
    }


def target_document(target: AttachmentTarget) -> dict[str, Any]:
    """A target in the form of requests."""
    if target.kind is PolicyTargetKind.CATALOG:
        return {"type": "catalog"}
    return {"type": "namespace" if target.kind is PolicyTargetKind.NAMESPACE else "table-like", "path": target.path}
