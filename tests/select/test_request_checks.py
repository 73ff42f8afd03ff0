from __future__ import annotations

import pytest

from lakebed.core.errors import SelectError
from lakebed.select.model import Compression, CsvInput, CsvOutput, JsonInput, JsonKind, ParquetInput, SelectRequest
from lakebed.select.request_checks import check_request

from .running import request


@pytest.mark.parametrize(
    ("select_request", "code"),
    [
        (request("", CsvInput(field_delimiter="")), "InvalidRequestParameter"),
        (request("", CsvInput(record_delimiter="")), "InvalidRequestParameter"),
        (request("", CsvInput(record_delimiter="abc")), "InvalidRequestParameter"),
        (request("", CsvInput(record_delimiter=",")), "InvalidRequestParameter"),
        (request("", CsvInput(field_delimiter="\n")), "InvalidRequestParameter"),
        (request("", CsvInput(quote="ab")), "InvalidRequestParameter"),
        (request("", CsvInput(quote=",")), "InvalidRequestParameter"),
        (request("", CsvInput(comments=",")), "InvalidRequestParameter"),
        (request("", None, CsvOutput(escape="\n")), "InvalidRequestParameter"),
        (request("", ParquetInput(), compression=Compression.BZIP2), "InvalidCompressionFormat"),
        (request("", compression=Compression.GZIP, scan=(0, 1)), "UnsupportedScanRangeInput"),
        (request("", JsonInput(JsonKind.DOCUMENT), scan=(0, 1)), "UnsupportedScanRangeInput"),
        (request("", CsvInput(allow_quoted_record_delimiter=True), scan=(0, 1)), "UnsupportedScanRangeInput"),
    ],
)
def test_invalid_options_have_their_s3_code(select_request: SelectRequest, code: str) -> None:
    with pytest.raises(SelectError) as raised:
        check_request(select_request)
    assert raised.value.code == code


def test_defaults_are_valid() -> None:
    check_request(request("SELECT * FROM S3Object"))
    check_request(
        request("", CsvInput(quote="", escape="", comments="", field_delimiter="::", record_delimiter="\r\n"))
    )
