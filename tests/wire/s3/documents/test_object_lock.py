from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lakebed.core.errors import InvalidInput, InvalidRetention
from lakebed.objects.config.object_lock import (
    DefaultRetention,
    LegalHold,
    ObjectLockConfiguration,
    Retention,
    RetentionMode,
)
from lakebed.wire.s3.documents.object_lock import (
    legal_hold_from_header,
    read_legal_hold,
    read_object_lock,
    read_retention,
    retention_from_headers,
    write_legal_hold,
    write_object_lock,
    write_retention,
)
from lakebed.wire.s3.xml import MalformedDocument

from .client import sent, understood

Y2030 = 1893456000000


def lock(**default: object) -> dict[str, Any]:  # Any: botocore's parameters
    return {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": default}}


def lock_body(config: dict[str, Any]) -> bytes:  # Any: botocore's parameters
    return sent("PutObjectLockConfiguration", Bucket="b", ObjectLockConfiguration=config)


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ({"ObjectLockEnabled": "Enabled"}, ObjectLockConfiguration()),
        (
            lock(Mode="GOVERNANCE", Days=1),
            ObjectLockConfiguration(DefaultRetention(RetentionMode.GOVERNANCE, days=1)),
        ),
        (
            lock(Mode="COMPLIANCE", Years=2),
            ObjectLockConfiguration(DefaultRetention(RetentionMode.COMPLIANCE, years=2)),
        ),
    ],
)
def test_object_lock_configuration_round_trips(config: dict[str, object], value: ObjectLockConfiguration) -> None:
    assert read_object_lock(lock_body(config)) == value
    response = understood("GetObjectLockConfiguration", write_object_lock(value))
    assert response == {"ObjectLockConfiguration": config}


@pytest.mark.parametrize(
    "config",
    [
        lock(Mode="GOVERNANCE", Days=1, Years=1),
        lock(Mode="GOVERNANCE"),
        lock(Mode="governance", Days=1),
        lock(Mode="abc", Years=1),
        lock(Days=1),
        {"ObjectLockEnabled": "Disabled"},
        {"ObjectLockEnabled": "Enabled", "Rule": {}},
        {},
    ],
)
def test_invalid_object_lock_configuration_is_malformed(config: dict[str, object]) -> None:
    with pytest.raises(MalformedDocument):
        read_object_lock(lock_body(config))


@pytest.mark.parametrize("period", [{"Days": 0}, {"Years": -1}, {"Days": 36_501}, {"Years": 101}])
def test_invalid_period_is_an_invalid_retention(period: dict[str, int]) -> None:
    with pytest.raises(InvalidRetention):
        read_object_lock(lock_body(lock(Mode="GOVERNANCE", **period)))


def test_retention_round_trips() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    body = sent("PutObjectRetention", Bucket="b", Key="k", Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until})
    retention = Retention(RetentionMode.GOVERNANCE, Y2030)
    assert read_retention(body) == retention
    response = understood("GetObjectRetention", write_retention(retention))
    assert response == {"Retention": {"Mode": "GOVERNANCE", "RetainUntilDate": until}}


def test_empty_retention_is_none() -> None:
    assert read_retention(sent("PutObjectRetention", Bucket="b", Key="k", Retention={})) is None


@pytest.mark.parametrize(
    "content",
    [
        "<Mode>GOVERNANCE</Mode>",
        "<RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate>",
        "<Mode>abc</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate>",
        "<Mode>GOVERNANCE</Mode><RetainUntilDate>tomorrow</RetainUntilDate>",
    ],
)
def test_invalid_retention_is_malformed(content: str) -> None:
    with pytest.raises(MalformedDocument):
        read_retention(f"<Retention>{content}</Retention>".encode())


@pytest.mark.parametrize("hold", list(LegalHold))
def test_legal_hold_round_trips(hold: LegalHold) -> None:
    body = sent("PutObjectLegalHold", Bucket="b", Key="k", LegalHold={"Status": hold.value})
    assert read_legal_hold(body) is hold
    assert understood("GetObjectLegalHold", write_legal_hold(hold)) == {"LegalHold": {"Status": hold.value}}


def test_unknown_legal_hold_is_malformed() -> None:
    with pytest.raises(MalformedDocument):
        read_legal_hold(b"<LegalHold><Status>abc</Status></LegalHold>")


def test_lock_headers_are_parsed() -> None:
    assert retention_from_headers(None, None) is None
    assert retention_from_headers("COMPLIANCE", "2030-01-01T00:00:00Z") == Retention(RetentionMode.COMPLIANCE, Y2030)
    assert legal_hold_from_header(None) is None
    assert legal_hold_from_header("ON") is LegalHold.ON


@pytest.mark.parametrize(
    ("mode", "until", "argument"),
    [
        ("GOVERNANCE", None, "x-amz-object-lock-retain-until-date"),
        (None, "2030-01-01T00:00:00Z", "x-amz-object-lock-mode"),
        ("abc", "2030-01-01T00:00:00Z", "x-amz-object-lock-mode"),
        ("GOVERNANCE", "later", "x-amz-object-lock-retain-until-date"),
    ],
)
def test_invalid_lock_headers_name_their_argument(mode: str | None, until: str | None, argument: str) -> None:
    with pytest.raises(InvalidInput) as error:
        retention_from_headers(mode, until)
    assert error.value.argument == argument
    assert not isinstance(error.value, MalformedDocument)


def test_unknown_legal_hold_header_names_its_argument() -> None:
    with pytest.raises(InvalidInput) as error:
        legal_hold_from_header("on")
    assert error.value.argument == "x-amz-object-lock-legal-hold"
