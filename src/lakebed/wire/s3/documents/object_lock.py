"""Object lock: documents of the bucket's configuration, retention and legal hold, and the corresponding headers."""

from __future__ import annotations

from lakebed.core.errors import InvalidInput
from lakebed.objects.config.object_lock import (
    DefaultRetention,
    LegalHold,
    ObjectLockConfiguration,
    Retention,
    RetentionMode,
)
from lakebed.wire.aws.timestamps import iso_time

from ..xml import MalformedDocument, document, parse_document, parse_time
from ._parts import optional_int

__all__ = [
    "legal_hold_from_header",
    "read_legal_hold",
    "read_object_lock",
    "read_retention",
    "retention_from_headers",
    "write_legal_hold",
    "write_object_lock",
    "write_retention",
]


def read_object_lock(body: bytes) -> ObjectLockConfiguration:
    """ObjectLockConfiguration. Raises MalformedDocument, InvalidRetention."""
    root = parse_document(body, "ObjectLockConfiguration").only("ObjectLockEnabled", "Rule")
    enabled = root.text_of("ObjectLockEnabled")
    if enabled != "Enabled":
        raise MalformedDocument(f"object lock can only be Enabled. value={enabled[:100]!r}")
    rule = root.optional("Rule")
    if rule is None:
        return ObjectLockConfiguration()
    retention = rule.only("DefaultRetention").required("DefaultRetention").only("Mode", "Days", "Years")
    days, years = retention.optional_int("Days"), retention.optional_int("Years")
    if (days is None) == (years is None):
        raise MalformedDocument("default retention requires either Days or Years")
    return ObjectLockConfiguration(DefaultRetention(retention.choice_of("Mode", RetentionMode), days, years))


def write_object_lock(config: ObjectLockConfiguration) -> bytes:
    """ObjectLockConfiguration."""
    default = config.default
    rule = ""
    if default is not None:
        rule = (
            f"<Rule><DefaultRetention><Mode>{default.mode}</Mode>{optional_int('Days', default.days)}"
            f"{optional_int('Years', default.years)}</DefaultRetention></Rule>"
        )
    return document("ObjectLockConfiguration", f"<ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}")


def read_retention(body: bytes) -> Retention | None:
    """Retention; None if it is empty, which removes the retention. Raises MalformedDocument."""
    root = parse_document(body, "Retention").only("Mode", "RetainUntilDate")
    if not root.children:
        return None
    return Retention(root.choice_of("Mode", RetentionMode), parse_time(root.text_of("RetainUntilDate")))


def write_retention(retention: Retention) -> bytes:
    """Retention."""
    return document(
        "Retention",
        f"<Mode>{retention.mode}</Mode><RetainUntilDate>{iso_time(retention.until_ms)}</RetainUntilDate>",
    )


def read_legal_hold(body: bytes) -> LegalHold:
    """LegalHold. Raises MalformedDocument."""
    return parse_document(body, "LegalHold").only("Status").choice_of("Status", LegalHold)


def write_legal_hold(hold: LegalHold) -> bytes:
    """LegalHold."""
    return document("LegalHold", f"<Status>{hold}</Status>")


def retention_from_headers(mode: str | None, until: str | None) -> Retention | None:
    """Parse `x-amz-object-lock-mode` and `-retain-until-date`; both or neither must be set. Raises InvalidInput."""
    if mode is None and until is None:
        return None
    if mode is None or until is None:
        raise InvalidInput(
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied.",
            argument="x-amz-object-lock-mode" if mode is None else "x-amz-object-lock-retain-until-date",
            value="",
        )
    try:
        chosen = RetentionMode(mode)
    except ValueError:
        raise InvalidInput("Unknown wormMode directive.", argument="x-amz-object-lock-mode", value=mode) from None
    try:
        return Retention(chosen, parse_time(until))
    except MalformedDocument as error:
        raise InvalidInput(
            "The retain until date must be provided in ISO 8601 format",
            argument="x-amz-object-lock-retain-until-date",
            value=until,
        ) from error


def legal_hold_from_header(status: str | None) -> LegalHold | None:
    """Parse `x-amz-object-lock-legal-hold`. Raises InvalidInput."""
    if status is None:
        return None
    try:
        return LegalHold(status)
    except ValueError:
        raise InvalidInput(
            "Legal Hold must be either of 'ON' or 'OFF'", argument="x-amz-object-lock-legal-hold", value=status
        ) from None
