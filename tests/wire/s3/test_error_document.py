from __future__ import annotations

from lakebed.wire.s3.errors import write_error
from lakebed.wire.s3.xml import parse_document

from .documents.client import understood


def test_client_parses_the_error_with_its_details() -> None:
    body = write_error(
        "InvalidArgument", "no <good>", "/b/k&", "R1", {"ArgumentName": "max-keys", "ArgumentValue": "x"}
    )
    assert understood("GetObject", body, 400)["Error"] == {
        "Code": "InvalidArgument",
        "Message": "no <good>",
        "Resource": "/b/k&",
        "ArgumentName": "max-keys",
        "ArgumentValue": "x",
    }
    assert parse_document(body, "Error").text_of("RequestId") == "R1"


def test_invalid_unicode_in_an_error_is_replaced() -> None:
    body = write_error("NoSuchKey", "", "/b/\udcff", "R1")
    assert understood("GetObject", body, 404)["Error"]["Resource"] == "/b/?"
