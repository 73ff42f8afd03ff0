"""S3 Select requests against a scripted server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.connection import ServerConnection
from lakebed.client.selects import ObjectEntry, SelectClient, SelectStats, Words, _elements
from lakebed.core.errors import (
    AccessDenied,
    Incomplete,
    InvalidInput,
    NoSuchBucket,
    NoSuchKey,
    NotSupported,
    SelectError,
    Throttled,
    Unavailable,
)
from lakebed.select.model import CsvInput, HeaderUse, JsonOutput, QueryStats, ScanRange, SelectRequest
from lakebed.wire.s3.errors import write_error
from lakebed.wire.s3.select import messages
from lakebed.wire.s3.select.document import read_select
from tests.client.test_connection import access_to
from tests.fixtures.scripted_http import ScriptedRequest, ScriptedResponse, ScriptedServer, scripted_server

SQL = "SELECT s.a FROM S3Object s WHERE s.b <> '&'"
WHOLE = b"".join(
    (
        messages.CONTINUATION,
        *messages.records(b'{"a":1}\n'),
        messages.progress(QueryStats(1, 1, 1)),
        *messages.records(b'{"a":2}\n'),
        messages.stats(QueryStats(10, 20, 16)),
        messages.END,
    )
)


@contextmanager
def selecting(responses: Sequence[ScriptedResponse]) -> Iterator[tuple[ScriptedServer, SelectClient]]:
    """A server that sends these responses in order and repeats the last, and a client that does not pause."""
    left = list(responses)

    def script(request: ScriptedRequest) -> ScriptedResponse:
        return left.pop(0) if len(left) > 1 else left[0]

    with scripted_server(script) as server:
        connection = ServerConnection(access_to(server.url), sleep=lambda _: None)
        try:
            yield server, SelectClient(connection)
        finally:
            connection.close()


def run(answer: ScriptedResponse) -> bytes:
    with selecting([answer]) as (_, selects):
        return b"".join(selects.run("b", "k", SQL, {"CSV": {}}, {"JSON": {}}))


def refusal(status: int, code: str) -> ScriptedResponse:
    return ScriptedResponse(status, write_error(code, "Why.", "/b/k", "R1"), {"Content-Type": "application/xml"})


def test_select_returns_records_and_statistics() -> None:
    with selecting([ScriptedResponse(200, WHOLE)]) as (server, selects):
        selection = selects.run(
            "b",
            "a b/c+d.csv",
            SQL,
            {"CSV": {"FileHeaderInfo": "USE", "RecordDelimiter": "\r\n", "AllowQuotedRecordDelimiter": True}},
            {"JSON": {"RecordDelimiter": "\n"}},
            scan_range=(5, None),
            version="v1",
        )
        assert server.requests == []
        assert b"".join(selection) == b'{"a":1}\n{"a":2}\n'
        assert selection.counts == SelectStats(10, 20, 16)
        (request,) = server.requests

    assert request.method == "POST"
    path, _, query = request.path.partition("?")
    assert path == "/b/a%20b/c%2Bd.csv"
    assert set(query.split("&")) == {"select=", "select-type=2", "versionId=v1"}
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert read_select(request.body) == SelectRequest(
        SQL,
        CsvInput(header=HeaderUse.USE, record_delimiter="\r\n", allow_quoted_record_delimiter=True),
        JsonOutput("\n"),
        scan_range=ScanRange(5, None),
    )


text = st.text(
    st.one_of(
        st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"),
        st.sampled_from("\r\n\t <&>\"'"),
    ),
    max_size=30,
)


@given(text, text)
def test_select_request_is_parsed_by_the_server(expression: str, delimiter: str) -> None:
    words: Words = {
        "Expression": expression,
        "ExpressionType": "SQL",
        "InputSerialization": {"CSV": {"FieldDelimiter": delimiter}},
        "OutputSerialization": {"JSON": {}},
    }
    body = f"<SelectObjectContentRequest>{_elements(words)}</SelectObjectContentRequest>".encode()
    assert read_select(body) == SelectRequest(expression, CsvInput(field_delimiter=delimiter), JsonOutput())


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(404, "NoSuchKey"), NoSuchKey),
        (refusal(404, "NoSuchBucket"), NoSuchBucket),
        (refusal(403, "AccessDenied"), AccessDenied),
        (refusal(501, "NotImplemented"), NotSupported),
        (refusal(503, "SlowDown"), Throttled),
        (refusal(503, "Busy"), Unavailable),
        (refusal(500, "InternalError"), Unavailable),
        (ScriptedResponse(502, b"<html>"), Unavailable),
    ],
)
def test_error_responses_become_lakebed_errors(answer: ScriptedResponse, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        run(answer)


def test_query_errors_have_their_code_before_and_after_the_first_record() -> None:
    with pytest.raises(SelectError, match="Why") as caught:
        run(refusal(400, "ParseSelectMissingFrom"))
    assert caught.value.code == "ParseSelectMissingFrom"

    later = b"".join(messages.records(b"1\n")) + messages.error("CastFailed", "not a number")
    with selecting([ScriptedResponse(200, later)]) as (_, selects):
        pieces = iter(selects.run("b", "k", SQL, {"CSV": {}}, {"JSON": {}}))
        assert next(pieces) == b"1\n"
        with pytest.raises(SelectError, match="not a number") as caught:
            next(pieces)
    assert caught.value.code == "CastFailed"


def test_server_failure_during_a_query_is_not_a_query_error() -> None:
    with pytest.raises(Unavailable, match="Busy"):
        run(ScriptedResponse(200, messages.error("Busy", "too long")))


@pytest.mark.parametrize("cut", [len(WHOLE) - len(messages.END), 1, 100])
def test_response_without_end_event_is_incomplete(cut: int) -> None:
    with pytest.raises(Incomplete):
        run(ScriptedResponse(200, WHOLE[:cut]))


def test_broken_connection_is_reported() -> None:
    with pytest.raises(Unavailable):
        run(ScriptedResponse(200, WHOLE[:100], claimed_length=len(WHOLE)))


def test_corrupt_event_stream_is_reported() -> None:
    with pytest.raises(Unavailable, match="corrupted"):
        run(ScriptedResponse(200, WHOLE[:70] + b"\0" + WHOLE[71:]))


def test_busy_response_to_a_select_is_retried() -> None:
    with selecting([refusal(503, "SlowDown"), ScriptedResponse(200, WHOLE)]) as (server, selects):
        assert b"".join(selects.run("b", "k", SQL, {"CSV": {}}, {"JSON": {}})).count(b"\n") == 2
        assert len(server.requests) == 2


def test_unfinished_result_does_not_block_the_next_query() -> None:
    with selecting([ScriptedResponse(200, WHOLE)]) as (server, selects):
        first = selects.run("b", "k", SQL, {"CSV": {}}, {"JSON": {}})
        assert next(iter(first)) == b'{"a":1}\n'
        first.close()
        assert len(list(selects.run("b", "k", SQL, {"CSV": {}}, {"JSON": {}}))) == 2
        assert len(server.requests) == 2


def listing(*keys: str, token: str = "") -> ScriptedResponse:
    rows = "".join(f"<Contents><Key>{key}</Key><Size>{len(key)}</Size></Contents>" for key in keys)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    body = f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{rows}{more}</ListBucketResult>'
    return ScriptedResponse(200, body.encode())


def test_objects_are_listed_over_several_pages() -> None:
    with selecting([listing("logs/a%20b", token="next"), listing("logs/c")]) as (server, selects):
        found = list(selects.objects("b", "logs/"))
        paths = [one.path for one in server.requests]
    assert found == [ObjectEntry("logs/a b", 10), ObjectEntry("logs/c", 6)]
    assert "prefix=logs%2F" in paths[0]
    assert "continuation-token=next" in paths[1]


def test_invalid_listing_is_reported() -> None:
    with (
        selecting([ScriptedResponse(200, b"hello")]) as (_, selects),
        pytest.raises(Unavailable, match="unexpected response to a listing"),
    ):
        list(selects.objects("b"))
    with (
        selecting([refusal(400, "InvalidArgument")]) as (_, selects),
        pytest.raises(InvalidInput, match="InvalidArgument"),
    ):
        list(selects.objects("b"))
