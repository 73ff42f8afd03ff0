"""Refresh of credentials."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

import pytest

from lakebed.core.clock import ManualClock
from lakebed.core.errors import CredentialsExpired, LakebedError, Unauthenticated, Unavailable
from lakebed.core.secrets import Secret
from lakebed.storage.credentials import Credentials, RefreshingCredentials
from lakebed.storage.credentials.refresh import ADVISORY_SECONDS, MANDATORY_SECONDS, PAUSE_SECONDS

HOUR = 3600.0


@dataclass
class Mint:
    """A source with numbered credentials, which waits at a gate if it is closed."""

    clock: ManualClock
    lifetime: float | None = HOUR
    survives_outage: bool = False
    failure: LakebedError | None = None
    exhausted: bool = False
    same_key: bool = False
    loads: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "mint"

    def __post_init__(self) -> None:
        self.gate.set()

    async def load(self) -> Credentials | None:
        self.loads += 1
        number = 1 if self.same_key else self.loads
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        if self.exhausted:
            return None
        expires_ms = None if self.lifetime is None else self.clock.now_ms() + round(self.lifetime * 1000)
        return Credentials(f"KEY{number}", Secret(f"secret{number}"), Secret(f"token{number}"), expires_ms, "mint")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def mint(clock: ManualClock) -> Mint:
    return Mint(clock)


@pytest.fixture
def provider(mint: Mint, clock: ManualClock) -> RefreshingCredentials:
    return RefreshingCredentials(mint, clock, jitter=lambda low, high: low)


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_good_credentials_are_fetched_once(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    first = await provider.credentials()
    clock.advance(HOUR - ADVISORY_SECONDS - 1)
    assert await provider.credentials() is first
    assert mint.loads == 1


async def test_permanent_credentials_are_kept(provider: RefreshingCredentials, mint: Mint, clock: ManualClock) -> None:
    mint.lifetime = None
    first = await provider.credentials()
    clock.advance(1_000_000)
    assert await provider.credentials() is first


async def test_concurrent_callers_share_one_fetch(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.gate.clear()
    callers = [asyncio.create_task(provider.credentials()) for _ in range(20)]
    await settle()
    mint.gate.set()
    results = await asyncio.gather(*callers)
    assert mint.loads == 1
    assert len({id(one) for one in results}) == 1


async def test_advisory_window_refreshes_in_the_background(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    first = await provider.credentials()
    mint.gate.clear()
    clock.advance(HOUR - ADVISORY_SECONDS + 1)
    for _ in range(5):
        assert await provider.credentials() is first
    await settle()
    assert mint.loads == 2
    mint.gate.set()
    await settle()
    assert (await provider.credentials()).access_key_id == "KEY2"
    assert mint.loads == 2


async def test_failure_in_the_advisory_window_is_only_logged(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = await provider.credentials()
    mint.failure = Unavailable("down")
    clock.advance(HOUR - ADVISORY_SECONDS + 1)
    assert await provider.credentials() is first
    await settle()
    assert await provider.credentials() is first
    await settle()
    assert mint.loads == 2, "the pause prevents an immediate second fetch"
    clock.advance(PAUSE_SECONDS + 1)
    assert await provider.credentials() is first
    await settle()
    assert mint.loads == 3
    assert [record.levelno for record in caplog.records].count(logging.WARNING) == 2


async def test_mandatory_window_blocks_all_callers(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    await provider.credentials()
    mint.gate.clear()
    clock.advance(HOUR - MANDATORY_SECONDS + 1)
    callers = [asyncio.create_task(provider.credentials()) for _ in range(5)]
    await settle()
    assert not any(caller.done() for caller in callers)
    mint.gate.set()
    assert {one.access_key_id for one in await asyncio.gather(*callers)} == {"KEY2"}
    assert mint.loads == 2


async def test_failure_in_the_mandatory_window_is_raised_to_all_callers(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    await provider.credentials()
    mint.failure = Unavailable("down")
    clock.advance(HOUR - MANDATORY_SECONDS + 1)
    outcomes = await asyncio.gather(*(provider.credentials() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    mint.failure = None
    assert (await provider.credentials()).access_key_id == "KEY3"


async def test_failure_of_the_first_fetch_is_raised_and_retried(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.failure = Unavailable("down")
    with pytest.raises(Unavailable):
        await provider.credentials()
    mint.failure = None
    assert (await provider.credentials()).access_key_id == "KEY2"


async def test_cancelling_one_caller_does_not_cancel_the_fetch(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.gate.clear()
    leaving, staying = (asyncio.create_task(provider.credentials()) for _ in range(2))
    await settle()
    leaving.cancel()
    await settle()
    mint.gate.set()
    assert (await staying).access_key_id == "KEY1"
    assert leaving.cancelled()


async def test_rejected_credentials_are_replaced_by_one_fetch(provider: RefreshingCredentials, mint: Mint) -> None:
    first = await provider.credentials()
    results = await asyncio.gather(*(provider.credentials(rejected=first) for _ in range(5)))
    assert {one.access_key_id for one in results} == {"KEY2"}
    assert mint.loads == 2


async def test_rejection_of_older_credentials_returns_the_current_ones(
    provider: RefreshingCredentials, mint: Mint
) -> None:
    first = await provider.credentials()
    second = await provider.credentials(rejected=first)
    assert await provider.credentials(rejected=first) is second
    assert mint.loads == 2


async def test_source_without_newer_credentials_is_an_error(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.same_key, mint.lifetime = True, None
    first = await provider.credentials()
    with pytest.raises(CredentialsExpired):
        await provider.credentials(rejected=first)


async def test_new_credentials_that_are_expired_are_an_error(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.lifetime = -1
    with pytest.raises(CredentialsExpired):
        await provider.credentials()


async def test_source_that_no_longer_has_credentials_is_an_error(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    await provider.credentials()
    mint.exhausted = True
    clock.advance(HOUR)
    with pytest.raises(Unauthenticated):
        await provider.credentials()


async def test_short_lived_credentials_are_not_fetched_for_every_request(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    mint.lifetime = 60
    first = await provider.credentials()
    for _ in range(5):
        assert await provider.credentials() is first
    clock.advance(PAUSE_SECONDS)
    assert await provider.credentials() is not first
    assert mint.loads == 2


async def test_expired_credentials_of_instance_metadata_are_used_and_refreshed_later(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    mint.survives_outage, mint.lifetime, mint.same_key = True, -60, True
    first = await provider.credentials()
    clock.advance(119)
    assert await provider.credentials() is first
    await settle()
    assert mint.loads == 1
    clock.advance(2)
    assert await provider.credentials() is first
    await settle()
    assert mint.loads == 2


async def test_credentials_of_unavailable_instance_metadata_stay_in_use(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock
) -> None:
    mint.survives_outage = True
    first = await provider.credentials()
    mint.failure = Unavailable("down")
    clock.advance(2 * HOUR)
    assert await provider.credentials() is first
    assert await provider.credentials() is first
    assert mint.loads == 2
    with pytest.raises(CredentialsExpired):
        await provider.credentials(rejected=first)


async def test_secrets_are_not_logged(
    provider: RefreshingCredentials, mint: Mint, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await provider.credentials()
    assert "mint" in caplog.text
    assert "secret" not in caplog.text
    assert "token" not in caplog.text


async def test_close_cancels_a_running_fetch(provider: RefreshingCredentials, mint: Mint) -> None:
    mint.gate.clear()
    caller = asyncio.create_task(provider.credentials())
    await settle()
    await provider.close()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await provider.close()
