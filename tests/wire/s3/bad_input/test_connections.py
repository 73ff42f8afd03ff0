"""The effects of invalid and valid requests on their connection."""

from __future__ import annotations

import hashlib

import pytest

from tests.fixtures.raw_http import UNSIGNED, request_bytes

from .site import BODY, BUCKET, HEX, KEPT, Site, assert_error

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_incomplete_heads_do_not_block_other_connections(site: Site) -> None:
    slow = [site.connect() for _ in range(50)]
    try:
        for connection in slow:
            connection.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow")
        for _ in range(20):
            assert site.send(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"
        for connection in slow:
            connection.send(b": 1\r\n\r\n")
            assert_error(connection.receive(), 403, "AccessDenied")
    finally:
        for connection in slow:
            connection.close()


def test_pipelined_requests_get_responses_in_order(site: Site) -> None:
    requests = []
    for number in range(20):
        requests.append(site.signed("GET", f"/{BUCKET}/absent-{number}"))
        requests.append(site.signed("GET", f"/{BUCKET}/{KEPT}"))
        requests.append(site.put(key=f"ahead-{number}", body=b"x" * number * 5000))
    with site.connect() as connection:
        connection.send(b"".join(requests))
        for number in range(20):
            absent = connection.receive()
            assert_error(absent, 404, "NoSuchKey")
            assert f"/absent-{number}<".encode() in absent.body
            assert connection.receive().body == b"kept bytes"
            assert connection.receive().etag == hashlib.md5(b"x" * number * 5000).hexdigest()
        for number in range(20):
            assert connection.exchange(site.signed("DELETE", f"/{BUCKET}/ahead-{number}")).status == 204


def test_rejected_request_gets_no_100_continue(site: Site) -> None:
    request = site.put({"expect": "100-continue"}, payload_hash=UNSIGNED)
    head = request[: -len(BODY)].replace(b"Signature=", b"Signature=0", 1)
    with site.connect() as connection:
        connection.send(head)
        assert connection.receive().status == 400
        assert connection.is_ended()
    wrong = site.signer.headers("PUT", f"/{BUCKET}/new", {"content-length": "99"}, payload_hash=HEX)
    wrong["authorization"] = wrong["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", wrong | {"expect": "100-continue"}))
        response = connection.receive()
        assert_error(response, 403, "SignatureDoesNotMatch")
        assert response.headers["connection"] == "close"
        assert connection.is_ended()


def test_valid_request_gets_100_continue(site: Site) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/continued", None, BODY) | {"expect": "100-continue"}
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/continued", headers))
        assert connection.receive().status == 100
        connection.send(BODY)
        assert connection.receive().status == 200
        assert connection.exchange(site.signed("GET", f"/{BUCKET}/continued")).body == BODY
        assert connection.exchange(site.signed("DELETE", f"/{BUCKET}/continued")).status == 204


@pytest.mark.parametrize("size", [10, 20_000])
def test_connection_stays_open_after_a_rejected_request_with_a_small_body(site: Site, size: int) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", None, b"x" * size)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers))
        assert_error(connection.receive(), 403, "SignatureDoesNotMatch")
        connection.send(b"x" * size)
        assert connection.exchange(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"


def test_response_arrives_although_a_large_body_is_unread(site: Site) -> None:
    size = 20 << 20
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", {"content-length": str(size)}, payload_hash=UNSIGNED)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers), bytes(size))
        response = connection.receive()
        assert_error(response, 403, "SignatureDoesNotMatch")
        assert response.headers["connection"] == "close"
