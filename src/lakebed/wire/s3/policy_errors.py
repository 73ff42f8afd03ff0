"""S3's error messages for invalid bucket policies.

The policy parser has other messages. To find the element that S3 would name, each element of an invalid document is
tested alone in a valid policy.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from lakebed.core.access import PolicyLanguage
from lakebed.core.errors import InvalidPolicy
from lakebed.core.json.syntax_errors import describe_json_error

MAX_POLICY_BYTES: Final = 20 * 1024
"""Longest policy document that is parsed."""

_VERSION: Final = "2012-10-17"
_OPERANDS: Final = ("x", "1", "true", "2026-01-02T03:04:05Z", "192.0.2.0/24", "eA==", "arn:aws:s3:::x")
"""Every condition operator accepts at least one of these."""

_NEGATIONS: Final = {"Principal": "NotPrincipal", "Action": "NotAction", "Resource": "NotResource"}


def policy_problem(policies: PolicyLanguage, document: bytes, bucket: str, table_bucket: str = "") -> str | None:
    """S3's message for an invalid document; None if S3 has none for the problem.

    `table_bucket` is the ARN of a table bucket in S3 Tables.
    """
    if len(document) > MAX_POLICY_BYTES:
        return None
    try:
        top = json.loads(document)
    except (ValueError, RecursionError):
        top = None
    if not isinstance(top, dict):
        if document.lstrip()[:1] == b"{":
            return f"This policy contains invalid Json: {describe_json_error(document)}"
        return "Policies must be valid JSON and the first byte must be '{'"
    if "Statement" not in top:
        return "Missing required field Statement"
    statements = top["Statement"] if isinstance(top["Statement"], list) else [top["Statement"]]
    if not statements:
        return "Could not parse the policy: Statement is empty!"
    trial = _Trial(policies, bucket, table_bucket)
    if "Version" in top and not trial.passes({}, top["Version"]):
        return "The policy must contain a valid version string"
    problems = (trial.problem(statement) for statement in statements if isinstance(statement, dict))
    return next((problem for problem in problems if problem is not None), None)


class _Trial:
    """A valid statement on one bucket, in which elements of another statement are tested."""

    def __init__(self, policies: PolicyLanguage, bucket: str, table_bucket: str) -> None:
        self._policies = policies
        self._bucket = bucket
        self._table_bucket = table_bucket
        arns = [f"arn:aws:s3:::{bucket}", table_bucket] if table_bucket else [f"arn:aws:s3:::{bucket}"]
        self._valid: dict[str, Any] = {  # Any: elements of any JSON type
            "Effect": "Deny",
            "Principal": "*",
            "Action": "*",
            "Resource": [one for arn in arns for one in (arn, f"{arn}/*")],
        }

    def passes(self, elements: dict[str, Any], version: object = _VERSION) -> bool:
        """Whether the statement stays valid with these elements."""
        statement = {**self._valid, **elements}
        for plain, negated in _NEGATIONS.items():
            if negated in elements:
                statement.pop(plain)
        document = json.dumps({"Version": version, "Statement": [statement]})
        try:
            self._policies.check_bucket_policy(document.encode(), self._bucket, self._table_bucket)
        except InvalidPolicy:
            return False
        return True

    def problem(self, statement: dict[str, Any]) -> str | None:
        """The problem of a statement, if one of its elements is invalid."""
        if not self.passes({"Effect": statement.get("Effect")}):
            return f"Invalid effect: {statement.get('Effect')}"
        resource, action = _element(statement, "Resource"), _element(statement, "Action")
        if not self.passes(resource):
            return "Policy has invalid resource"
        if not self.passes(action):
            return "Policy has invalid action"
        if "Condition" in statement:
            condition = {"Condition": statement["Condition"]}
            if not self.passes(condition):
                return self._condition_problem(statement["Condition"])
            if not self.passes({**action, **condition}):
                return "Conditions do not apply to combination of actions and resources in statement"
        if not self.passes({**resource, **action}):
            return "Action does not apply to any resource(s) in statement"
        if not self.passes({"Effect": statement["Effect"], **_element(statement, "Principal")}):
            return "Invalid principal in policy"
        return None

    def _condition_problem(self, written: object) -> str | None:
        for operator, key, value in _conditions(written):
            if self.passes({"Condition": {operator: {key: value}}}):
                continue
            if not any(self.passes({"Condition": {operator: {"aws:UserAgent": operand}}}) for operand in _OPERANDS):
                return f"Invalid Condition type : {operator}"
            if key.lower() == "aws:sourceip":
                return "Invalid IP address in Conditions"
            if not self.passes({"Condition": {"StringEquals": {key: "x"}}}):
                return "Policy has an invalid condition key"
        return None


def _element(statement: dict[str, Any], plain: str) -> dict[str, Any]:
    """The element or its negation; null, which is never valid, if both are missing."""
    negated = _NEGATIONS[plain]
    return {negated: statement[negated]} if negated in statement else {plain: statement.get(plain)}


def _conditions(written: object) -> Iterator[tuple[str, str, object]]:
    for operator, keys in written.items() if isinstance(written, dict) else ():
        for key, value in keys.items() if isinstance(keys, dict) else ():
            yield operator, key, value
