"""Runs all steps of a check in order, each with a timeout, and cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.core.ids import new_blob_id
from lakebed.core.sigv4 import encode_segment
from lakebed.storage.credentials import Credentials, CredentialSource, HostEnvironment, RefreshingCredentials
from lakebed.storage.probe import CONDITIONS_TRUSTED
from lakebed.storage.s3 import connect_s3

from .credentials import CredentialSteps
from .explanations import explain
from .model import CheckReport, StepFailed, StepFinding, StepName, StepOutcome, StepResult, missing_prerequisite
from .network import NetworkSteps
from .objects import ObjectSteps
from .scope import ScopeSteps
from .store_client import StoreClient
from .target import CheckedStore
from .vending import VendingSteps

STEP_SECONDS: Final = 60.0
"""Timeout of a step; the slowest sends a few MiB."""

Step = Callable[[], Awaitable[StepFinding]]
OnStep = Callable[[StepName], None]
"""Called with each step before it runs."""


async def check_store(
    target: CheckedStore,
    source: CredentialSource,
    host_environment: HostEnvironment,
    on_step: OnStep,
    *,
    step_seconds: float = STEP_SECONDS,
) -> CheckReport:
    """Run all steps; the report. Failures of the store do not raise, and no object stays behind."""
    scratch = "/".join(
        filter(None, (target.options.prefix.strip("/"), "lakebed-check", new_blob_id(host_environment.clock)))
    )
    check = _Check(target, scratch, source, host_environment, on_step, step_seconds)
    try:
        await check.run()
    finally:
        remaining = await asyncio.shield(check.clean_up())
    return CheckReport(target.endpoint, target.options.bucket, tuple(check.results), tuple(remaining))


class _Check:
    def __init__(
        self,
        configured: CheckedStore,
        scratch: str,
        source: CredentialSource,
        host_environment: HostEnvironment,
        on_step: OnStep,
        step_seconds: float,
    ) -> None:
        self.results: list[StepResult] = []
        self._configured = configured
        target = replace(configured, options=replace(configured.options, prefix=scratch))
        self._target = target
        self._source = source
        self._surroundings = host_environment
        self._clock = host_environment.clock
        self._on_step = on_step
        self._step_seconds = step_seconds
        self._client = StoreClient(host_environment.clock, target.region, target.ca_bundle)
        self._network = NetworkSteps(target, self._client, host_environment.clock)
        self._keys = CredentialSteps(target, self._client, source)
        self._scope = ScopeSteps(target, self._client, host_environment)
        self._vending = VendingSteps(target, self._client, host_environment)
        self._objects: ObjectSteps | None = None
        self._open = AsyncExitStack()

    async def run(self) -> None:
        for name, step in self._steps().items():
            self._on_step(name)
            result = await self._try(name, step)
            self.results.append(result)
            if name is StepName.BUCKET and result.outcome is StepOutcome.PASSED:
                await self._open_store()

    async def clean_up(self) -> list[str]:
        """Remove remaining objects; returns the names of those that could not be removed."""
        remaining: list[str] = []
        prefix, bucket = self._target.options.key_prefix, self._target.options.bucket
        async with self._open:
            steps = self._objects
            if steps is not None:
                remaining += [f"{bucket}/{prefix}{key}" for key in await steps.clean_up()]
                if steps.keeps_versions:
                    remaining += await remove_versions(self._client, self._target, self._keys.keys)
            remaining += await self._without_failing(self._keys.remove_bucket)
        return remaining

    async def _without_failing(self, leave: Callable[[], Awaitable[list[str]]]) -> list[str]:
        try:
            return await leave()
        except LakebedError:
            return [f"bucket {self._target.options.bucket}"]

    def _steps(self) -> Mapping[StepName, Step]:
        return {
            StepName.DNS: self._network.resolve,
            StepName.TCP: self._network.connect,
            StepName.TLS: self._network.handshake,
            StepName.CLOCK: self._network.compare_clocks,
            StepName.CREDENTIALS: self._keys.authenticate,
            StepName.BUCKET: self._keys.check_bucket,
            StepName.STS: lambda: self._scope.assume_role(self._keys.keys),
            StepName.PUT: lambda: self._object_steps.put(),
            StepName.CONDITIONAL_PUT: lambda: self._object_steps.put_conditionally(),
            StepName.MULTIPART: lambda: self._object_steps.upload_multipart(),
            StepName.LIST: lambda: self._object_steps.list_written(),
            StepName.RANGE_GET: lambda: self._object_steps.get_range(),
            StepName.SCOPE: lambda: self._scope.check_scope(self._object_steps.track),
            StepName.VENDED: lambda: self._vending.vend(self._keys.keys),
            StepName.DELETE: lambda: self._object_steps.delete(),
        }

    @property
    def _object_steps(self) -> ObjectSteps:
        if self._objects is None:
            raise RuntimeError("object step before the bucket step")
        return self._objects

    async def _open_store(self) -> None:
        """Connect the storage backend between the steps: importing its library takes longer than most steps."""
        provider = RefreshingCredentials(self._source, self._clock)
        storage = await connect_s3(
            self._target.options, self._surroundings, credentials=provider, capabilities=CONDITIONS_TRUSTED
        )
        self._open.push_async_callback(storage.close)
        self._objects = ObjectSteps(storage, conditional_writes=self._target.conditional_writes)

    async def _try(self, name: StepName, step: Step) -> StepResult:
        missing = missing_prerequisite(name, {result.step: result.outcome for result in self.results})
        if missing is not None:
            return StepResult(name, StepOutcome.SKIPPED, 0.0, f"requires {missing}")
        started = self._clock.monotonic()

        def ended(finding: StepFinding) -> StepResult:
            seconds = self._clock.monotonic() - started
            return StepResult(name, finding.outcome, seconds, finding.found, finding.why, finding.advice)

        try:
            async with asyncio.timeout(self._step_seconds):
                return ended(await step())
        except StepFailed as failure:
            failed = failure
        except LakebedError as error:
            # With the configured prefix, not the check's scratch prefix below it.
            failed = explain(name, error, self._configured)
        except TimeoutError:
            failed = StepFailed(
                f"timeout after {self._step_seconds:g} s",
                "The store or the network is too slow: check the store's log.",
            )
        return ended(StepFinding("", StepOutcome.FAILED, failed.why, failed.advice))


_MAX_PAGES: Final = 10
"""A check creates about a dozen versions."""


async def remove_versions(client: StoreClient, target: CheckedStore, keys: Credentials) -> list[str]:
    """Remove all versions and delete markers under the check's prefix; returns the names of those that remain."""
    prefix, bucket = target.options.key_prefix, target.options.bucket
    remaining: list[str] = []
    try:
        for _ in range(_MAX_PAGES):
            query = {"versions": "", "prefix": prefix}
            response = await client.signed("GET", target.bucket_url, keys, query=query)
            if response.status != 200:
                return [f"older versions under {bucket}/{prefix}"]
            found = response.children("Version", "DeleteMarker")
            if not found:
                break
            remaining = []
            for one in found:
                url = "/".join((target.bucket_url.rstrip("/"), *map(encode_segment, one["Key"].split("/"))))
                gone = await client.signed("DELETE", url, keys, query={"versionId": one["VersionId"]})
                if gone.status != 204:
                    remaining.append(f"{bucket}/{one['Key']} version {one['VersionId']}")
            if remaining:
                break
    except LakebedError:
        return [f"older versions under {bucket}/{prefix}"]
    return remaining
