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
def test_small_clock_differences_pass(ahead: float) -> None:
    found = judge_skew(ahead)
    assert (found.outcome, found.why) == (StepOutcome.PASSED, "")


@pytest.mark.parametrize(("ahead", "message"), [(90, "90 s ahead of"), (-600, "10 min behind")])
def test_clock_drift_is_reported_within_the_tolerance(ahead: float, message: str) -> None:
    found = judge_skew(ahead)
    assert found.outcome is StepOutcome.PASSED
    assert message in found.found
    assert found.why


@pytest.mark.parametrize(
    ("ahead", "message"),
    [(MAX_SKEW_SECONDS + 1, "15 min ahead of"), (-3600, "60 min behind"), (86_400 * 2, "48.0 h ahead of")],
)
def test_large_clock_difference_fails(ahead: float, message: str) -> None:
    with pytest.raises(StepFailed, match=message):
        judge_skew(ahead)


@pytest.fixture
async def silent() -> AsyncIterator[int]:
    """The port of a server that is not HTTP: it sends a greeting and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def steps_for(port: int, scheme: str = "http", host: str = "127.0.0.1") -> NetworkSteps:
    options = S3Options(bucket="bucket", endpoint=f"{scheme}://{host}:{port}", allow_http=True)
    clock = ManualClock()
    return NetworkSteps(CheckedStore(options, "us-east-1"), StoreClient(clock, "us-east-1"), clock)


async def test_non_http_server_is_reported(silent: int) -> None:
    steps = steps_for(silent)
    await steps.resolve()
    assert f"127.0.0.1:{silent}" in (await steps.connect()).found
    with pytest.raises(StepFailed, match="no HTTP response") as failed:
        await steps.compare_clocks()
    assert "S3 store listens on that port" in failed.value.advice


async def test_unknown_protocol_is_not_reported_as_plain_http(silent: int) -> None:
    steps = steps_for(silent, "https")
    await steps.resolve()
    with pytest.raises(StepFailed, match="TLS handshake failed"):
        await steps.handshake()


async def test_unresolved_virtual_host_name_has_a_hint() -> None:
    options = S3Options(bucket="bucket", endpoint="http://store.invalid", path_style=False, allow_http=True)
    clock = ManualClock()
    steps = NetworkSteps(CheckedStore(options, "us-east-1"), StoreClient(clock, "us-east-1"), clock)
    with pytest.raises(StepFailed, match=r"bucket\.store\.invalid does not resolve") as failed:
        await steps.resolve()
    assert "path_style" in failed.value.advice
