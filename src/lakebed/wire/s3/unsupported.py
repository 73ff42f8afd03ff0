"""S3 features that are not supported, and their errors. Printed by `lakebed conform`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.wire.aws.errors import AwsFault

from .errors import CONFIGURATION_CODES


@dataclass(frozen=True, slots=True)
class UnsupportedS3Operation:
    """A subresource that is not supported."""

    feature: str
    absent: str | None = None
    """Settings that clients read first: GET returns the error of this kind, that none is set."""
    note: str = ""
    reads_empty: bool = False
    """Whether GET is routed to a handler that returns an empty document."""

    def fault(self, method: str) -> AwsFault:
        """The error for a method."""
        if method == "GET" and self.absent is not None:
            code, message = CONFIGURATION_CODES[self.absent]
            return AwsFault(404, code, message)
        return AwsFault(501, "NotImplemented", f"{self.feature} is not supported.")


UNSUPPORTED_BUCKET: Final[Mapping[str, UnsupportedS3Operation]] = {
    "website": UnsupportedS3Operation("Static website hosting", absent="website"),
    "replication": UnsupportedS3Operation("Bucket replication", absent="replication"),
    "analytics": UnsupportedS3Operation("Storage class analysis"),
    "inventory": UnsupportedS3Operation("Bucket inventory reports"),
    "metrics": UnsupportedS3Operation("Request metrics configuration", note="the server's own metrics are at /metrics"),
    "intelligent-tiering": UnsupportedS3Operation("Intelligent tiering"),
    "accelerate": UnsupportedS3Operation("Transfer acceleration", reads_empty=True),
    "logging": UnsupportedS3Operation("Server access logging", reads_empty=True),
    "session": UnsupportedS3Operation("Directory buckets (CreateSession)"),
    "metadataTable": UnsupportedS3Operation("S3 Metadata tables"),
    "metadataConfiguration": UnsupportedS3Operation("S3 Metadata configuration"),
    "metadataInventoryTable": UnsupportedS3Operation("S3 Metadata inventory tables"),
    "metadataJournalTable": UnsupportedS3Operation("S3 Metadata journal tables"),
    "metadataAnnotationTable": UnsupportedS3Operation("S3 Metadata annotation tables"),
    "abac": UnsupportedS3Operation("Attribute-based access control setting"),
}

UNSUPPORTED_OBJECT: Final[Mapping[str, UnsupportedS3Operation]] = {
    "torrent": UnsupportedS3Operation("BitTorrent"),
    "restore": UnsupportedS3Operation("Restore from archive tiers"),
    "renameObject": UnsupportedS3Operation("RenameObject (directory buckets)"),
    "encryption": UnsupportedS3Operation("UpdateObjectEncryption"),
    "annotation": UnsupportedS3Operation("Object annotations"),
}

_OTHER: Final = (
    (
        "ACL grants and canned ACLs beyond private",
        "400 AccessControlListNotSupported",
        "buckets are BucketOwnerEnforced",
    ),
    ("Signature Version 2", "400 InvalidRequest", "use AWS4-HMAC-SHA256"),
    ("Signature Version 4A (multi-region)", "400 InvalidRequest", "use AWS4-HMAC-SHA256"),
    ("SSE-C (customer-provided keys)", "501 NotImplemented", "SSE-S3 is supported"),
    ("SSE-KMS", "501 NotImplemented", "SSE-S3 is supported"),
    ("Storage classes other than STANDARD", "400 InvalidStorageClass", ""),
    ("Lifecycle transitions", "501 NotImplemented", "expiration and abort of uploads are supported"),
    (
        "Lifecycle expiration in table buckets",
        "405 MethodNotAllowed",
        "table maintenance removes unreferenced files; abort of uploads is supported",
    ),
    (
        "Notifications to SNS topics, Lambda functions and EventBridge",
        "400 UnsupportedNotification",
        "targets are named as queues: arn:lakebed:sqs:REGION:ID:TYPE",
    ),
    ("MFA delete", "501 NotImplemented", ""),
    ("Requester pays", "501 NotImplemented", "the bucket owner pays"),
    ("Access points and object lambda", "501 NotImplemented", ""),
)


def inventory() -> list[tuple[str, str, str]]:
    """All unsupported features: name, response, and alternative."""
    rows = []
    for scope in (UNSUPPORTED_BUCKET, UNSUPPORTED_OBJECT):
        for item in scope.values():
            response = "501 NotImplemented"
            if item.absent is not None:
                response = f"404 {CONFIGURATION_CODES[item.absent][0]} on read, 501 NotImplemented on write"
            elif item.reads_empty:
                response = "200 with nothing set on read, 501 NotImplemented on write"
            rows.append((item.feature, response, item.note))
    return [*rows, *_OTHER]
