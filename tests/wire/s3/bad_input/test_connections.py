"""What bad and good requests do to the connection they come on."""

from __future__ import annotations

import hashlib

import pytest

from tests.fixtures.raw_http import UNSIGNED, request_bytes

from .site import BODY, BUCKET, HEX, KEPT, Site, assert_refused

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_head_that_never_ends_does_not_block_others(site: Site) -> None:
    slow = [site.connect() for _ in range(50)]
    try:
        for connection in slow:
            connection.send(b"GET / HTTP/1.1\r\nhost: x\r\nx-slow")
        for _ in range(20):
            assert site.ask(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"
        for connection in slow:
            connection.send(b": 1\r\n\r\n")
            assert_refused(connection.receive(), 403, "AccessDenied")
    finally:
        for connection in slow:
            connection.close()


def test_requests_sent_ahead_are_answered_in_order(site: Site) -> None:
    requests = []
    for number in range(20):
        requests.append(site.signed("GET", f"/{BUCKET}/absent-{number}"))
        requests.append(site.signed("GET", f"/{BUCKET}/{KEPT}"))
        requests.append(site.put(key=f"ahead-{number}", body=b"x" * number * 5000))
    with site.connect() as connection:
        connection.send(b"".join(requests))
        for number in range(20):
            absent = connection.receive()
            assert_refused(absent, 404, "NoSuchKey")
            assert f"/absent-{number}<".encode() in absent.body
            assert connection.receive().body == b"kept bytes"
            assert connection.receive().etag == hashlib.md5(b"x" * number * 5000).hexdigest()
        for number in range(20):
            assert connection.ask(site.signed("DELETE", f"/{BUCKET}/ahead-{number}")).status == 204


def test_refused_request_is_not_asked_for_its_body(site: Site) -> None:
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
        answer = connection.receive()
        assert_refused(answer, 403, "SignatureDoesNotMatch")
        assert answer.headers["connection"] == "close"
        assert connection.is_ended()


def test_good_request_is_asked_for_its_body(site: Site) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/continued", None, BODY) | {"expect": "100-continue"}
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/continued", headers))
        assert connection.receive().status == 100
        connection.send(BODY)
        assert connection.receive().status == 200
        assert connection.ask(site.signed("GET", f"/{BUCKET}/continued")).body == BODY
        assert connection.ask(site.signed("DELETE", f"/{BUCKET}/continued")).status == 204


@pytest.mark.parametrize("size", [10, 20_000])
def test_connection_goes_on_after_a_refusal_with_a_small_body_unread(site: Site, size: int) -> None:
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", None, b"x" * size)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers))
        assert_refused(connection.receive(), 403, "SignatureDoesNotMatch")
        connection.send(b"x" * size)
        assert connection.ask(site.signed("GET", f"/{BUCKET}/{KEPT}")).body == b"kept bytes"


def test_answer_arrives_though_a_large_body_stays_unread(site: Site) -> None:
    size = 20 << 20
    headers = site.signer.headers("PUT", f"/{BUCKET}/new", {"content-length": str(size)}, payload_hash=UNSIGNED)
    headers["authorization"] = headers["authorization"][:-64] + HEX
    with site.connect() as connection:
        connection.send(request_bytes("PUT", f"/{BUCKET}/new", headers), bytes(size))
        answer = connection.receive()
        assert_refused(answer, 403, "SignatureDoesNotMatch")
        assert answer.headers["connection"] == "close"
