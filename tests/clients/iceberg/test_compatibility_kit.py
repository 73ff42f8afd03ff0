"""The catalog against Iceberg's REST Compatibility Kit, the tests for every REST catalog."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clients.boto import REGION
from tests.clients.iceberg.kit.expectations import CANNOT_PASS, SWITCHED_OFF, TESTS, UNWRITTEN_FILES, names
from tests.clients.iceberg.lake import OWN, Lake, new_lake
from tests.fixtures.compatibility_kit import CompatibilityKit, Outcome, Verdict
from tests.fixtures.server import RunningServer, running_server

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.heavy]


@dataclass(frozen=True, slots=True)
class KitRun:
    """One run of all tests."""

    places_files: bool
    outcomes: list[Outcome]

    @property
    def expected(self) -> dict[str, Verdict]:
        """The expected verdict of tests that do not pass."""
        failing = [*names(CANNOT_PASS), *(() if self.places_files else UNWRITTEN_FILES)]
        return {**dict.fromkeys(failing, Verdict.FAILED), **dict.fromkeys(names(SWITCHED_OFF), Verdict.SKIPPED)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A separate server, whose log is caused by the kit alone."""
    with running_server(tmp_path_factory.mktemp("kit") / "data") as started:
        yield started


@pytest.fixture(scope="module", params=[False, True], ids=["unchanged", "with its files in place"])
def run(
    request: pytest.FixtureRequest,
    compatibility_kit: CompatibilityKit,
    server: RunningServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> KitRun:
    """A run of the kit on a new table bucket."""
    settings = settings_of(new_lake(server), places_files=request.param)
    return KitRun(request.param, compatibility_kit.run(settings, tmp_path_factory.mktemp("kit")))


def settings_of(lake: Lake, *, places_files: bool) -> dict[str, str]:
    """Settings of the kit's client: usual Iceberg settings, and defaults that its tests expect."""
    server = lake.server
    return {
        "kit.places-files": str(places_files).lower(),
        "uri": f"{server.endpoint}{OWN}",
        "warehouse": lake.warehouse,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "client.region": REGION,
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3",
        "rest.signing-region": REGION,
        "rest.access-key-id": server.access_key,
        "rest.secret-access-key": server.secret_key,
        "s3.endpoint": server.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        "table-default.default-key1": "catalog-default-key1",
        "table-default.default-key2": "catalog-default-key2",
        "table-default.override-key3": "catalog-default-key3",
        "table-override.override-key3": "catalog-override-key3",
        "table-override.override-key4": "catalog-override-key4",
        "view-default.key1": "catalog-default-key1",
        "view-default.key2": "catalog-default-key2",
        "view-default.key3": "catalog-default-key3",
        "view-override.key3": "catalog-override-key3",
        "view-override.key4": "catalog-override-key4",
    }


def test_every_test_of_the_kit_has_the_expected_verdict(run: KitRun, subtests: pytest.Subtests) -> None:
    for outcome in run.outcomes:
        with subtests.test(outcome.name):
            assert outcome.verdict is run.expected.get(outcome.name, Verdict.PASSED), outcome.message


def test_all_tests_ran_and_every_expectation_names_one(run: KitRun) -> None:
    found = {outcome.name for outcome in run.outcomes}
    assert len(run.outcomes) == len(found) == TESTS
    listed = [*names(CANNOT_PASS), *UNWRITTEN_FILES, *names(SWITCHED_OFF)]
    assert len(listed) == len(set(listed))
    assert set(listed) <= found


def test_commits_are_refused_because_of_unwritten_files(run: KitRun) -> None:
    messages = {outcome.name: outcome.message for outcome in run.outcomes if outcome.name in UNWRITTEN_FILES}
    wrong = ("is outside the table's directories", "size of the file differs from its manifest")
    refused = {name for name, text in messages.items() if text and any(why in text for why in wrong)}
    assert refused == (set() if run.places_files else set(UNWRITTEN_FILES))


def test_no_request_of_the_kit_crashed(run: KitRun, server: RunningServer) -> None:
    assert run.outcomes
    log = server.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
