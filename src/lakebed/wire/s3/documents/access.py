"""Documents of ACLs, public access block, policy status, ownership, request payment, acceleration and logging."""

from __future__ import annotations

from lakebed.core.errors import NotSupported
from lakebed.objects.config.ownership import ObjectOwnership, Payer, check_ownership, check_payer
from lakebed.objects.config.public_access import PublicAccessBlock

from ..xml import document, escape, parse_document
from ._parts import OwnerElement, boolean, owner_element

__all__ = [
    "OwnerElement",
    "read_logging",
    "read_ownership",
    "read_public_access_block",
    "read_request_payment",
    "write_access_control_policy",
    "write_no_accelerate",
    "write_no_logging",
    "write_ownership",
    "write_policy_status",
    "write_public_access_block",
    "write_request_payment",
]


def write_access_control_policy(owner: OwnerElement) -> bytes:
    """AccessControlPolicy: only a grant of full control to the owner, because policies grant all other access."""
    return document(
        "AccessControlPolicy",
        f"{owner_element(owner)}<AccessControlList><Grant>"
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
        f"<ID>{escape(owner.id)}</ID><DisplayName>{escape(owner.display_name)}</DisplayName></Grantee>"
        "<Permission>FULL_CONTROL</Permission></Grant></AccessControlList>",
    )


def read_public_access_block(body: bytes) -> PublicAccessBlock:
    """PublicAccessBlockConfiguration; missing settings are off. Raises MalformedDocument."""
    root = parse_document(body, "PublicAccessBlockConfiguration")
    root.only("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    return PublicAccessBlock(
        block_public_acls=bool(root.optional_bool("BlockPublicAcls")),
        ignore_public_acls=bool(root.optional_bool("IgnorePublicAcls")),
        block_public_policy=bool(root.optional_bool("BlockPublicPolicy")),
        restrict_public_buckets=bool(root.optional_bool("RestrictPublicBuckets")),
    )


def write_public_access_block(block: PublicAccessBlock) -> bytes:
    """PublicAccessBlockConfiguration."""
    return document(
        "PublicAccessBlockConfiguration",
        f"<BlockPublicAcls>{boolean(block.block_public_acls)}</BlockPublicAcls>"
        f"<IgnorePublicAcls>{boolean(block.ignore_public_acls)}</IgnorePublicAcls>"
        f"<BlockPublicPolicy>{boolean(block.block_public_policy)}</BlockPublicPolicy>"
        f"<RestrictPublicBuckets>{boolean(block.restrict_public_buckets)}</RestrictPublicBuckets>",
    )


def write_policy_status(is_public: bool) -> bytes:
    """PolicyStatus."""
    return document("PolicyStatus", f"<IsPublic>{boolean(is_public)}</IsPublic>")


def read_ownership(body: bytes) -> ObjectOwnership:
    """OwnershipControls. Raises MalformedDocument; NotSupported for all but BucketOwnerEnforced."""
    rule = parse_document(body, "OwnershipControls").only("Rule").required("Rule").only("ObjectOwnership")
    ownership = rule.choice_of("ObjectOwnership", ObjectOwnership)
    check_ownership(ownership)
    return ownership


def write_ownership(ownership: ObjectOwnership) -> bytes:
    """OwnershipControls."""
    return document("OwnershipControls", f"<Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule>")


def read_request_payment(body: bytes) -> Payer:
    """RequestPaymentConfiguration. Raises MalformedDocument; NotSupported for all but BucketOwner."""
    payer = parse_document(body, "RequestPaymentConfiguration").only("Payer").choice_of("Payer", Payer)
    check_payer(payer)
    return payer


def write_request_payment(payer: Payer) -> bytes:
    """RequestPaymentConfiguration."""
    return document("RequestPaymentConfiguration", f"<Payer>{payer}</Payer>")


def write_no_accelerate() -> bytes:
    """AccelerateConfiguration of a bucket where it was never set."""
    return document("AccelerateConfiguration", "")


def read_logging(body: bytes) -> None:
    """BucketLoggingStatus: only disabling is accepted. Raises MalformedDocument, NotSupported."""
    if parse_document(body, "BucketLoggingStatus").only("LoggingEnabled").optional("LoggingEnabled") is not None:
        raise NotSupported("server access logging is not supported")


def write_no_logging() -> bytes:
    """BucketLoggingStatus without logging."""
    return document("BucketLoggingStatus", "")
