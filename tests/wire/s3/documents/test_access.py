from __future__ import annotations

import pytest

from lakebed.core.errors import NotSupported
from lakebed.objects.config.ownership import ObjectOwnership, Payer
from lakebed.objects.config.public_access import PublicAccessBlock
from lakebed.wire.s3.documents.access import (
    OwnerElement,
    read_logging,
    read_ownership,
    read_public_access_block,
    read_request_payment,
    write_access_control_policy,
    write_no_accelerate,
    write_no_logging,
    write_ownership,
    write_policy_status,
    write_public_access_block,
    write_request_payment,
)
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood


def test_access_control_policy_grants_the_owner_full_control() -> None:
    body = write_access_control_policy(OwnerElement("an-id", "A & B"))
    for operation in ("GetBucketAcl", "GetObjectAcl"):
        assert understood(operation, body) == {
            "Owner": {"ID": "an-id", "DisplayName": "A & B"},
            "Grants": [
                {
                    "Grantee": {"ID": "an-id", "DisplayName": "A & B", "Type": "CanonicalUser"},
                    "Permission": "FULL_CONTROL",
                }
            ],
        }


def test_public_access_block_round_trips() -> None:
    config = {
        "BlockPublicAcls": True,
        "IgnorePublicAcls": False,
        "BlockPublicPolicy": True,
        "RestrictPublicBuckets": False,
    }
    block = read_public_access_block(sent("PutPublicAccessBlock", Bucket="b", PublicAccessBlockConfiguration=config))
    assert block == PublicAccessBlock(block_public_acls=True, block_public_policy=True)
    response = understood("GetPublicAccessBlock", write_public_access_block(block))
    assert response == {"PublicAccessBlockConfiguration": config}


def test_missing_settings_of_public_access_block_are_off() -> None:
    assert read_public_access_block(b"<PublicAccessBlockConfiguration/>") == PublicAccessBlock()


@pytest.mark.parametrize("is_public", [True, False])
def test_client_parses_policy_status(is_public: bool) -> None:
    response = understood("GetBucketPolicyStatus", write_policy_status(is_public))
    assert response == {"PolicyStatus": {"IsPublic": is_public}}


def ownership_body(ownership: str) -> bytes:
    return sent("PutBucketOwnershipControls", Bucket="b", OwnershipControls={"Rules": [{"ObjectOwnership": ownership}]})


def test_only_bucket_owner_enforced_is_supported() -> None:
    enforced = read_ownership(ownership_body("BucketOwnerEnforced"))
    assert enforced is ObjectOwnership.BUCKET_OWNER_ENFORCED
    assert understood("GetBucketOwnershipControls", write_ownership(enforced)) == {
        "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    }
    for other in ("BucketOwnerPreferred", "ObjectWriter"):
        with pytest.raises(NotSupported, match=other):
            read_ownership(ownership_body(other))
    with pytest.raises(MalformedDocument):
        read_ownership(ownership_body("Unknown"))


def test_only_bucket_owner_payer_is_supported() -> None:
    def body(payer: str) -> bytes:
        return sent("PutBucketRequestPayment", Bucket="b", RequestPaymentConfiguration={"Payer": payer})

    payer = read_request_payment(body("BucketOwner"))
    assert understood("GetBucketRequestPayment", write_request_payment(payer)) == {"Payer": Payer.BUCKET_OWNER.value}
    with pytest.raises(NotSupported, match="Requester"):
        read_request_payment(body("Requester"))
    with pytest.raises(MalformedDocument):
        read_request_payment(body("Unknown"))


def test_acceleration_is_never_set() -> None:
    assert understood("GetBucketAccelerateConfiguration", write_no_accelerate()) == {}


def test_server_access_logging_can_only_be_disabled() -> None:
    read_logging(sent("PutBucketLogging", Bucket="b", BucketLoggingStatus={}))
    target = {"TargetBucket": "logs", "TargetPrefix": ""}
    with pytest.raises(NotSupported, match="logging"):
        read_logging(sent("PutBucketLogging", Bucket="b", BucketLoggingStatus={"LoggingEnabled": target}))
    with pytest.raises(MalformedDocument):
        read_logging(b"<BucketLoggingStatus><Other/></BucketLoggingStatus>")
    assert understood("GetBucketLogging", write_no_logging()) == {}
