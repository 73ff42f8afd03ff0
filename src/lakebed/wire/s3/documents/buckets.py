"""Documents of bucket creation, location, versioning and encryption."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.core.errors import InvalidEncryption, InvalidInput, NotSupported
from lakebed.objects.config.encryption import BucketEncryption, EncryptionAlgorithm, parse_encryption_algorithm
from lakebed.objects.config.tagging import NO_TAGS, TagSet, bucket_tags
from lakebed.objects.config.versioning import Versioning

from ..xml import MalformedDocument, XmlElement, document, escape, parse_document
from ._parts import boolean
from .tagging import read_tag

__all__ = [
    "BucketCreation",
    "read_bucket_creation",
    "read_encryption",
    "read_versioning",
    "write_encryption",
    "write_location",
    "write_versioning",
]


@dataclass(frozen=True, slots=True)
class BucketCreation:
    """A parsed CreateBucketConfiguration."""

    location: str | None = None
    tags: TagSet = NO_TAGS


def read_bucket_creation(body: bytes) -> BucketCreation:
    """CreateBucketConfiguration, or an empty body. Raises MalformedDocument, InvalidTag, NotSupported."""
    if not body:
        return BucketCreation()
    root = parse_document(body, "CreateBucketConfiguration").only("LocationConstraint", "Location", "Bucket", "Tags")
    if root.optional("Location") is not None or root.optional("Bucket") is not None:
        raise NotSupported("directory buckets are not supported")
    tags = root.optional("Tags")
    return BucketCreation(
        (root.optional_text("LocationConstraint") or "").strip() or None,
        NO_TAGS if tags is None else bucket_tags(read_tag(tag) for tag in tags.only("Tag").children),
    )


def write_location(region: str) -> bytes:
    """LocationConstraint: the region; empty for us-east-1, as in S3."""
    return document("LocationConstraint", "" if region == "us-east-1" else escape(region))


def read_versioning(body: bytes) -> Versioning:
    """VersioningConfiguration: Enabled or Suspended. Raises MalformedDocument; NotSupported for MFA delete."""
    root = parse_document(body, "VersioningConfiguration").only("Status", "MfaDelete")
    mfa = root.optional_text("MfaDelete")
    if mfa == "Enabled":
        raise NotSupported("mfa delete is not supported")
    if mfa not in (None, "Disabled"):
        raise MalformedDocument(f"unknown value. name=MfaDelete value={mfa[:100]!r}")
    status = root.choice_of("Status", Versioning)
    if status is Versioning.UNVERSIONED:
        raise MalformedDocument("status must be Enabled or Suspended. value=''")
    return status


def write_versioning(versioning: Versioning) -> bytes:
    """VersioningConfiguration: empty for a bucket that was never versioned."""
    status = "" if versioning is Versioning.UNVERSIONED else f"<Status>{versioning}</Status>"
    return document("VersioningConfiguration", status)


def read_encryption(body: bytes) -> BucketEncryption:
    """ServerSideEncryptionConfiguration with one rule.

    Raises MalformedDocument, InvalidInput, and NotSupported for KMS keys and for BlockedEncryptionTypes.
    """
    rule = parse_document(body, "ServerSideEncryptionConfiguration").only("Rule").required("Rule")
    rule.only("ApplyServerSideEncryptionByDefault", "BucketKeyEnabled", "BlockedEncryptionTypes")
    blocked = rule.optional("BlockedEncryptionTypes")
    if blocked is not None and any(kind.text.strip() != "NONE" for kind in blocked.children):
        raise NotSupported("BlockedEncryptionTypes is not supported")
    default = rule.optional("ApplyServerSideEncryptionByDefault")
    return BucketEncryption(
        EncryptionAlgorithm.AES256 if default is None else _read_algorithm(default),
        bool(rule.optional_bool("BucketKeyEnabled")),
    )


def _read_algorithm(default: XmlElement) -> EncryptionAlgorithm:
    default.only("SSEAlgorithm", "KMSMasterKeyID")
    try:
        algorithm = parse_encryption_algorithm(default.text_of("SSEAlgorithm").strip())
    except InvalidEncryption as error:
        raise MalformedDocument(f"unknown value. name=SSEAlgorithm. {error}") from error
    if default.optional("KMSMasterKeyID") is not None:
        raise InvalidInput("KMSMasterKeyID is allowed only with aws:kms", argument="KMSMasterKeyID")
    return algorithm


def write_encryption(encryption: BucketEncryption) -> bytes:
    """ServerSideEncryptionConfiguration."""
    return document(
        "ServerSideEncryptionConfiguration",
        "<Rule><ApplyServerSideEncryptionByDefault>"
        f"<SSEAlgorithm>{encryption.algorithm}</SSEAlgorithm></ApplyServerSideEncryptionByDefault>"
        f"<BucketKeyEnabled>{boolean(encryption.bucket_key_enabled)}</BucketKeyEnabled></Rule>",
    )
