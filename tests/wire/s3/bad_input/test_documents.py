"""Documents that are malformed, dangerous or too large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest

from tests.fixtures.raw_http import request_bytes

from .site import BUCKET, HEX, KEPT, VERSIONED, Site, assert_error

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DOCUMENTS: Final = {
    "CreateBucketConfiguration": ("PUT", "/bad-input-new"),
    "VersioningConfiguration": ("PUT", f"/{BUCKET}?versioning"),
    "LifecycleConfiguration": ("PUT", f"/{BUCKET}?lifecycle"),
    "CORSConfiguration": ("PUT", f"/{BUCKET}?cors"),
    "Tagging": ("PUT", f"/{BUCKET}?tagging"),
    "Tagging-object": ("PUT", f"/{BUCKET}/{KEPT}?tagging"),
    "ServerSideEncryptionConfiguration": ("PUT", f"/{BUCKET}?encryption"),
    "PublicAccessBlockConfiguration": ("PUT", f"/{BUCKET}?publicAccessBlock"),
    "OwnershipControls": ("PUT", f"/{BUCKET}?ownershipControls"),
    "ObjectLockConfiguration": ("PUT", f"/{BUCKET}?object-lock"),
    "RequestPaymentConfiguration": ("PUT", f"/{BUCKET}?requestPayment"),
    "BucketLoggingStatus": ("PUT", f"/{BUCKET}?logging"),
    "Retention": ("PUT", f"/{VERSIONED}/{KEPT}?retention"),
    "LegalHold": ("PUT", f"/{VERSIONED}/{KEPT}?legal-hold"),
    "Delete": ("POST", f"/{BUCKET}?delete"),
    "CompleteMultipartUpload": ("POST", f"/{BUCKET}/upload?uploadId=UPLOAD"),
}
_BOMB: Final = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha"}">' for n in range(10))
MALFORMED: Final[Mapping[str, Callable[[str], bytes]]] = {
    "words": lambda root: b"these are words",
    "cut short": lambda root: f"<{root}><a>".encode(),
    "another document": lambda root: b"<Other/>",
    "two documents": lambda root: f"<{root}/><{root}/>".encode(),
    "unknown element": lambda root: f"<{root}><Nonsense>1</Nonsense></{root}>".encode(),
    "doctype": lambda root: f"<!DOCTYPE {root}><{root}/>".encode(),
    "outside entity": lambda root: (
        f'<!DOCTYPE {root} [<!ENTITY x SYSTEM "file:///etc/hostname">]><{root}>&x;</{root}>'.encode()
    ),
    "entity bomb": lambda root: f"<!DOCTYPE {root} [{_BOMB}]><{root}>&e9;</{root}>".encode(),
    "deep nesting": lambda root: (f"<{root}>" + "<a>" * 100_000).encode(),
    "latin-1": lambda root: f'<?xml version="1.0" encoding="ISO-8859-1"?><{root}>\xe4</{root}>'.encode("latin-1"),
    "doctype in utf-16": lambda root: f"<!DOCTYPE {root}><{root}/>".encode("utf-16"),
    "nul": lambda root: f"<{root}>\0</{root}>".encode(),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_malformed_document_is_rejected_and_changes_nothing(site: Site, document: str) -> None:
    method, target = DOCUMENTS[document]
    target = target.replace("UPLOAD", site.upload)
    with site.connect() as connection:
        for make in MALFORMED.values():
            body = make(document.partition("-")[0])
            response = connection.exchange(site.signed(method, target, None, body))
            assert_error(response, 400, "MalformedXML")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "policy", [b"{", b"[]", b'"text"', b'{"Version": "2012-10-17"}', b"\xff", b"null", b"[" * 9999]
)
def test_malformed_policy_is_rejected(site: Site, policy: bytes) -> None:
    assert_error(site.send(site.signed("PUT", f"/{BUCKET}?policy", None, policy)), 400, "MalformedPolicy")


@pytest.mark.usefixtures("unchanged")
def test_document_over_the_limit_is_rejected_before_it_is_read(site: Site) -> None:
    headers = site.signer.headers("POST", f"/{BUCKET}?delete", {"content-length": str(64 << 20)}, payload_hash=HEX)
    assert_error(site.send(request_bytes("POST", f"/{BUCKET}?delete", headers)), 400, "EntityTooLarge")


@pytest.mark.parametrize("kind", ["LINES", "DOCUMENT"])
@pytest.mark.parametrize("deep", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_select_of_deeply_nested_json_gets_json_parsing_error(site: Site, kind: str, deep: str) -> None:
    body = f'{{"name":"x","deep":{deep}}}'.encode()
    assert site.send(site.put(None, body, key="deep")).status == 200
    document = (
        "<SelectObjectContentRequest><Expression>SELECT s.deep FROM S3Object s</Expression>"
        f"<ExpressionType>SQL</ExpressionType><InputSerialization><JSON><Type>{kind}</Type></JSON></InputSerialization>"
        "<OutputSerialization><JSON/></OutputSerialization></SelectObjectContentRequest>"
    ).encode()
    response = site.send(site.signed("POST", f"/{BUCKET}/deep?select&select-type=2", None, document))
    assert_error(response, 400, "JSONParsingError")
    assert site.send(site.signed("DELETE", f"/{BUCKET}/deep")).status == 204
