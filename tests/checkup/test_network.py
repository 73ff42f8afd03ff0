from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from lakebed.checkup.model import StepFailed, StepOutcome
from lakebed.checkup.network import MAX_SKEW_SECONDS, NetworkSteps, judge_skew
from lakebed.checkup.store_client import StoreClient
from lakebed.checkup.target import CheckedStore
from lakebed.core.clock import ManualClock
from lakebed.storage.s3 import S3Options


@pytest.mark.parametrize("ahead", [0, 0.4, -1, 59, -59])
def test_clocks_that_agree(ahead: float) -> None:
    found = judge_skew(ahead)
    assert (found.outcome, found.why) == (StepOutcome.PASSED, "")


@pytest.mark.parametrize(("ahead", "said"), [(90, "90 s ahead of"), (-600, "10 min behind")])
def test_clocks_that_drift_are_told_of_before_they_hurt(ahead: float, said: str) -> None:
    found = judge_skew(ahead)
    assert found.outcome is StepOutcome.PASSED
    assert said in found.found
    assert found.why


@pytest.mark.parametrize(
    ("ahead", "said"),
    [(MAX_SKEW_SECONDS + 1, "15 min ahead of"), (-3600, "60 min behind"), (86_400 * 2, "48.0 h ahead of")],
)
def test_clocks_too_far_apart_fail(ahead: float, said: str) -> None:
    with pytest.raises(StepFailed, match=said):
        judge_skew(ahead)


@pytest.fixture
async def silent() -> AsyncIterator[int]:
    """The port of something that is no HTTP server: it says so, in its own words, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def way_to(port: int, scheme: str = "http", host: str = "127.0.0.1") -> NetworkSteps:
    options = S3Options(bucket="bucket", endpoint=f"{scheme}://{host}:{port}", allow_http=True)
    clock = ManualClock()
    return NetworkSteps(CheckedStore(options, "us-east-1"), StoreClient(clock, "us-east-1"), clock)


async def test_what_is_no_http_server_is_told_so(silent: int) -> None:
    way = way_to(silent)
    await way.resolve()
    assert f"127.0.0.1:{silent}" in (await way.connect()).found
    with pytest.raises(StepFailed, match="no HTTP response") as failed:
        await way.compare_clocks()
    assert "S3 store listens on that port" in failed.value.advice


async def test_what_speaks_neither_tls_nor_http_is_not_taken_for_plain_http(silent: int) -> None:
    way = way_to(silent, "https")
    await way.resolve()
    with pytest.raises(StepFailed, match="TLS handshake failed"):
        await way.handshake()


async def test_a_bucket_in_the_name_is_hinted_at_when_the_name_leads_nowhere() -> None:
    options = S3Options(bucket="bucket", endpoint="http://store.invalid", path_style=False, allow_http=True)
    clock = ManualClock()
    way = NetworkSteps(CheckedStore(options, "us-east-1"), StoreClient(clock, "us-east-1"), clock)
    with pytest.raises(StepFailed, match=r"bucket\.store\.invalid does not resolve") as failed:
        await way.resolve()
    assert "path_style" in failed.value.advice
