"""Object lock: retention and legal hold protect versions from deletion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.clients.boto import body_of, refused

pytestmark = pytest.mark.integration


def _soon() -> datetime:
    return (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)


@pytest.fixture
def locked(s3: Any, new_name: str) -> str:
    s3.create_bucket(Bucket=new_name, ObjectLockEnabledForBucket=True)
    return new_name


def test_bucket_with_object_lock_keeps_versioning_enabled(s3: Any, locked: str) -> None:
    assert s3.get_bucket_versioning(Bucket=locked)["Status"] == "Enabled"
    found = s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]
    assert found == {"ObjectLockEnabled": "Enabled"}
    with refused("InvalidBucketState", 409):
        s3.put_bucket_versioning(Bucket=locked, VersioningConfiguration={"Status": "Suspended"})


def test_default_retention_applies_to_new_objects(s3: Any, locked: str) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=locked, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    assert s3.get_object_lock_configuration(Bucket=locked)["ObjectLockConfiguration"]["Rule"] == rule
    s3.put_object(Bucket=locked, Key="k", Body=b"1")
    retention = s3.get_object_retention(Bucket=locked, Key="k")["Retention"]
    assert retention["Mode"] == "GOVERNANCE"
    assert timedelta(hours=23) < retention["RetainUntilDate"] - datetime.now(UTC) <= timedelta(days=1)


def test_compliance_retention_cannot_be_bypassed_or_shortened(s3: Any, locked: str) -> None:
    until = _soon()
    put = s3.put_object(
        Bucket=locked, Key="k", Body=b"kept", ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until
    )
    version = {"Bucket": locked, "Key": "k", "VersionId": put["VersionId"]}
    head = s3.head_object(**version)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", until)
    with refused("AccessDenied", 403):
        s3.delete_object(**version)
    with refused("AccessDenied", 403):
        s3.delete_object(**version, BypassGovernanceRetention=True)
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": until - timedelta(minutes=30)}
    with refused("AccessDenied", 403):
        s3.put_object_retention(**version, Retention=shorter, BypassGovernanceRetention=True)
    longer = {"Mode": "COMPLIANCE", "RetainUntilDate": until + timedelta(minutes=30)}
    s3.put_object_retention(**version, Retention=longer)
    assert s3.get_object_retention(**version)["Retention"] == longer
    assert s3.delete_object(Bucket=locked, Key="k")["DeleteMarker"] is True
    assert body_of(s3, locked, "k", VersionId=put["VersionId"]) == b"kept"


def test_governance_retention_can_be_bypassed_with_permission(s3: Any, locked: str) -> None:
    put = s3.put_object(
        Bucket=locked, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=_soon()
    )
    version = {"Bucket": locked, "Key": "k", "VersionId": put["VersionId"]}
    with refused("AccessDenied", 403):
        s3.delete_object(**version)
    s3.delete_object(**version, BypassGovernanceRetention=True)
    with refused("404", 404):
        s3.head_object(**version)


def test_legal_hold_protects_until_it_is_removed(s3: Any, locked: str) -> None:
    put = s3.put_object(Bucket=locked, Key="k", Body=b"1", ObjectLockLegalHoldStatus="ON")
    version = {"Bucket": locked, "Key": "k", "VersionId": put["VersionId"]}
    assert s3.get_object_legal_hold(**version)["LegalHold"]["Status"] == "ON"
    batch = s3.delete_objects(
        Bucket=locked, Delete={"Objects": [{"Key": "k", "VersionId": put["VersionId"]}]}, BypassGovernanceRetention=True
    )
    assert [item["Code"] for item in batch["Errors"]] == ["AccessDenied"]
    s3.put_object_legal_hold(**version, LegalHold={"Status": "OFF"})
    s3.delete_object(**version)
    with refused("404", 404):
        s3.head_object(**version)


def test_bucket_without_object_lock_refuses_retention(s3: Any, bucket: str) -> None:
    with refused("ObjectLockConfigurationNotFoundError", 404):
        s3.get_object_lock_configuration(Bucket=bucket)
    with refused("InvalidRequest", 400):
        s3.put_object(Bucket=bucket, Key="k", Body=b"1", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=_soon())
    s3.put_object(Bucket=bucket, Key="k", Body=b"1")
    with refused("InvalidRequest", 400):
        s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})


@pytest.mark.parametrize(
    ("retention", "code"),
    [
        ({"Mode": "GOVERNANCE", "Days": 1, "Years": 1}, "MalformedXML"),
        ({"Mode": "GOVERNANCE", "Days": 0}, "InvalidArgument"),
        ({"Mode": "governance", "Days": 1}, "MalformedXML"),
    ],
    ids=["days and years", "zero days", "unknown mode"],
)
def test_invalid_retention_is_refused(s3: Any, locked: str, retention: dict[str, Any], code: str) -> None:
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": retention}}
    with refused(code, 400):
        s3.put_object_lock_configuration(Bucket=locked, ObjectLockConfiguration=configuration)
