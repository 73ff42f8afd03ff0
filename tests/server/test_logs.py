from __future__ import annotations

import io
import json
import logging
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.clock import ManualClock
from lakebed.core.settings import LoggingFormat, LoggingSettings, LogLevel
from lakebed.server.logs import AccessLog, configure_logs, redact

LOG = logging.getLogger("lakebed.test")


@pytest.fixture(autouse=True)
def own_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:  # Any: a log line's fields
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def json_logs(level: LogLevel = LogLevel.INFO) -> io.StringIO:
    stream = io.StringIO()
    configure_logs(LoggingSettings(level=level), stream)
    return stream


def text_logs() -> io.StringIO:
    stream = io.StringIO()
    configure_logs(LoggingSettings(format=LoggingFormat.TEXT), stream)
    return stream


def test_record_is_one_json_object_with_its_fields() -> None:
    stream = json_logs()
    LOG.info("swept %s", "b1", extra={"request_id": "R1", "removed": 3, "ratio": 0.5, "forced": None})
    (line,) = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "logger": "lakebed.test",
        "message": "swept b1",
        "request_id": "R1",
        "removed": 3,
        "ratio": 0.5,
        "forced": None,
    }


def test_extra_field_cannot_override_a_field_of_the_record() -> None:
    stream = json_logs()
    LOG.info("real", extra={"level": "fake", "error": "fake"})
    (line,) = lines(stream)
    assert (line["level"], line["field_level"], line["field_error"]) == ("info", "fake", "fake")


def test_records_below_the_level_are_dropped() -> None:
    stream = json_logs(LogLevel.WARNING)
    LOG.info("below the level")
    LOG.warning("logged")
    assert [line["message"] for line in lines(stream)] == ["logged"]


def test_debug_level_excludes_debug_records_of_libraries() -> None:
    stream = json_logs(LogLevel.DEBUG)
    logging.getLogger("botocore.auth").debug("string to sign")
    LOG.debug("ours")
    assert [line["message"] for line in lines(stream)] == ["ours"]


def test_error_is_logged_with_its_traceback_without_secrets() -> None:
    stream = json_logs()
    try:
        raise ValueError("GET /b?X-Amz-Signature=deadbeef failed")
    except ValueError:
        LOG.exception("request failed")
    (line,) = lines(stream)
    assert "Traceback" in line["error"]
    assert "X-Amz-Signature=***" in line["error"]
    assert "deadbeef" not in stream.getvalue()


def test_python_warnings_are_logged_as_records() -> None:
    stream = json_logs()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old habit", stacklevel=1)
    assert "old habit" in lines(stream)[0]["message"]


def test_configuring_again_replaces_the_handler() -> None:
    first = json_logs()
    second = json_logs()
    LOG.info("once")
    assert (first.getvalue(), len(lines(second))) == ("", 1)


def test_text_format_is_one_line() -> None:
    stream = text_logs()
    LOG.info("swept", extra={"request_id": "R1", "removed": 3})
    assert re.fullmatch(r"\S+Z info    lakebed\.test swept request_id=R1 removed=3\n", stream.getvalue())


def test_line_break_in_a_message_does_not_start_a_new_line() -> None:
    stream = text_logs()
    LOG.info("key %s", "a\n2026-01-01 forged", extra={"field": "b\r\nforged"})
    assert stream.getvalue().count("\n") == 1


def test_text_shows_a_traceback_below() -> None:
    stream = text_logs()
    try:
        raise ValueError("broken")
    except ValueError:
        LOG.exception("request failed")
    assert stream.getvalue().splitlines()[1] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("/b/k?X-Amz-Signature=abc123&x=1", "/b/k?X-Amz-Signature=***&x=1"),
        ("/b/k?a=1&X-Amz-Security-Token=Fwo%2FabC%3D", "/b/k?a=1&X-Amz-Security-Token=***"),
        ("/b/k?x-amz-signature=abc123", "/b/k?x-amz-signature=***"),
        ("/b/k?AWSAccessKeyId=A&Signature=vjbyPxybdZ%3D&Expires=1", "/b/k?AWSAccessKeyId=A&Signature=***&Expires=1"),
        ("authorization: AWS4-HMAC-SHA256 Credential=A/2/r/s3/aws4_request, Signature=ab", "authorization: ***"),
        (
            "[(b'authorization', b'AWS4-HMAC-SHA256 x, Signature=ab'), (b'a', b'b')]",
            "[(b'authorization', b'***'), (b'a', b'b')]",
        ),
        ("{'Authorization': 'Bearer abc.def.ghi', 'a': 1}", "{'Authorization': '***', 'a': 1}"),
        ("token is Bearer abc.def.ghi", "token is Bearer ***"),
        ("x-amz-server-side-encryption-customer-key: c2VjcmV0", "x-amz-server-side-encryption-customer-key: ***"),
        ("connecting to postgresql://lake:s3cret@db/lake", "connecting to postgresql://lake:***@db/lake"),
        ("secret_access_key=abc region=x", "secret_access_key=*** region=x"),
    ],
)
def test_secrets_are_redacted_and_the_rest_is_unchanged(text: str, safe: str) -> None:
    assert redact(text) == safe


@pytest.mark.parametrize(
    "text",
    [
        "GET /bucket/key?versionId=3&partNumber=2",
        "continuation-token is not one",
        "no such setting. nearest=root.access_key",
        "listening on http://127.0.0.1:9000/",
        "x-amz-server-side-encryption-customer-key-md5: abc",
    ],
)
def test_lines_without_secrets_are_unchanged(text: str) -> None:
    assert redact(text) == text


@given(
    st.sampled_from(["X-Amz-Signature", "X-Amz-Security-Token", "x-amz-security-token", "X-AMZ-SIGNATURE"]),
    st.text("abcdefABCDEF0123456789%/+.~-_", min_size=8, max_size=60),
    st.text("abcxyz/&=?.-", max_size=20),
)
def test_signatures_are_redacted_in_any_url(name: str, value: str, around: str) -> None:
    assert value not in redact(f"/bucket/{around}?list-type=2&{name}={value}&{around}").replace(around, "")


@given(st.text())
def test_redaction_accepts_any_text(text: str) -> None:
    assert isinstance(redact(text), str)


def record_one(log: AccessLog, target: str = "/") -> None:
    log.record(
        request_id="R1",
        remote="127.0.0.1",
        principal="root",
        method="GET",
        target=target,
        status=200,
        received_bytes=0,
        sent_bytes=10,
        seconds=0.0012345,
    )


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def access_line(pipe: tuple[int, int], log_format: LoggingFormat, target: str) -> bytes:
    reader, writer = pipe
    record_one(AccessLog(writer, log_format, ManualClock(1_700_000_000_123)), target)
    return os.read(reader, 65536)


def test_an_access_record_is_one_json_line(pipe: tuple[int, int]) -> None:
    line = access_line(pipe, LoggingFormat.JSON, "/b/k?X-Amz-Signature=abc")
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123Z",
        "logger": "lakebed.access",
        "request_id": "R1",
        "remote": "127.0.0.1",
        "principal": "root",
        "method": "GET",
        "target": "/b/k?X-Amz-Signature=***",
        "status": 200,
        "received_bytes": 0,
        "sent_bytes": 10,
        "ms": 1.234,
    }


def test_access_record_with_vended_credentials_has_the_delegation(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    log = AccessLog(writer, LoggingFormat.JSON, ManualClock())
    log.record(
        request_id="R1",
        remote="127.0.0.1",
        principal="bob",
        method="GET",
        target="/b/k",
        status=200,
        received_bytes=0,
        sent_bytes=10,
        seconds=0.001,
        delegation="LKBTSOMEKEY",
    )
    assert json.loads(os.read(reader, 65536))["delegation"] == "LKBTSOMEKEY"


def test_access_record_in_text_is_one_line_for_any_target(pipe: tuple[int, int]) -> None:
    line = access_line(pipe, LoggingFormat.TEXT, "/b/\r\nforged \udc80")
    assert line.count(b"\n") == 1
    assert line.startswith(b"2023-11-14T22:13:20.123Z lakebed.access R1 127.0.0.1 root GET /b/\\r\\nforged")


def test_target_that_is_not_utf8_is_escaped(pipe: tuple[int, int]) -> None:
    assert json.loads(access_line(pipe, LoggingFormat.JSON, "/b/\udc80"))["target"] == "/b/\\udc80"


def test_timestamps_of_access_records_follow_the_clock(pipe: tuple[int, int]) -> None:
    clock = ManualClock(1_700_000_000_999)
    log = AccessLog(pipe[1], LoggingFormat.JSON, clock)
    stamps = []
    for _ in range(3):
        record_one(log)
        stamps.append(json.loads(os.read(pipe[0], 65536))["time"])
        clock.advance(0.5)
    assert stamps == ["2023-11-14T22:13:20.999Z", "2023-11-14T22:13:21.499Z", "2023-11-14T22:13:21.999Z"]


def test_closed_log_pipe_does_not_fail_the_request() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    record_one(AccessLog(writer, LoggingFormat.JSON, ManualClock()))
    os.close(writer)
