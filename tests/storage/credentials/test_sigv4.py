from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from tests.clients.boto import Keys
from tests.clients.signing import Signer

from lakebed.core.secrets import Secret
from lakebed.storage.credentials.model import Credentials
from lakebed.storage.credentials.sigv4 import signed_form_headers, signed_headers

AT = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
NOW_MS = round(AT.timestamp() * 1000)
KEYS = Credentials("AKID", Secret("secret"), Secret("token"))


@pytest.mark.parametrize("service", ["s3tables", "glue"])
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", ""),
        ("/iceberg/v1/config", "warehouse=arn%3Aaws%3As3tables%3A%3A%3Abucket%2Flake"),
        ("/iceberg/v1/lake/namespaces/a%1Fb/tables/t%20x", "snapshots=refs&b=1&a=%2F"),
    ],
)
def test_signature_is_the_one_of_the_sdk(service: str, path: str, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: AT.replace(tzinfo=None))
    url = f"https://catalog.example{path}" + (f"?{query}" if query else "")
    request = AWSRequest("GET", url, headers={"accept": "application/json"})
    SigV4Auth(BotoCredentials("AKID", "secret", "token"), service, "eu-west-1").add_auth(request)
    ours = signed_headers(
        "GET",
        host="catalog.example",
        path=path,
        query=query,
        headers={"accept": "application/json"},
        region="eu-west-1",
        service=service,
        credentials=KEYS,
        now_ms=NOW_MS,
    )
    assert ours["authorization"] == request.headers["Authorization"]


def test_path_is_signed_as_it_is_sent_for_s3() -> None:
    path = "/iceberg/v1/lake/namespaces/a%1Fb"
    empty = sha256(b"").hexdigest()
    signer = Signer(Keys("AKID", "secret", "token"), at=AT)
    theirs = signer.headers("GET", f"http://lake.example:9000{path}?snapshots=refs", empty)
    ours = signed_headers(
        "GET",
        host="lake.example:9000",
        path=path,
        query="snapshots=refs",
        headers={"x-amz-content-sha256": empty},
        region=signer.region,
        service="s3",
        credentials=KEYS,
        now_ms=NOW_MS,
    )
    assert ours["authorization"] == theirs["Authorization"]


def test_form_is_signed_with_its_type_and_body() -> None:
    one = signed_form_headers(
        host="sts.example", form=b"Action=A", region="r", service="sts", credentials=KEYS, now_ms=NOW_MS
    )
    other = signed_form_headers(
        host="sts.example", form=b"Action=B", region="r", service="sts", credentials=KEYS, now_ms=NOW_MS
    )
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token" in one["authorization"]
    assert one["authorization"] != other["authorization"]
