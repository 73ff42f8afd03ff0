from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType

import pytest

from lakebed.cli.main import FAILED
from lakebed.conform.inventories import PRINTS
from lakebed.wire.iceberg.unsupported import inventory as of_catalog
from lakebed.wire.management.unsupported import inventory as of_management

from .conftest import Lakebed

REFUSED = 1
CLIENTS = ("boto3", "botocore", "pyiceberg", "pyarrow", "requests")


@pytest.fixture
def _inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("lakebed.wire.s3.unsupported")
    vars(module)["inventory"] = lambda: [("Torrent", "501", "[gone]")]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("name", PRINTS)
def test_reports_are_sorted_json(lakebed: Lakebed, name: str) -> None:
    outcome = lakebed("conform", f"--print-{name}")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == json.dumps(outcome.document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.mark.usefixtures("_inventory")
def test_inventory_has_unsupported_features_of_s3(lakebed: Lakebed) -> None:
    document = lakebed("conform", "--print-unsupported-inventory").document
    assert document["s3_unsupported"] == [{"feature": "Torrent", "answer": "501", "note": "[gone]"}]


def test_inventory_has_unsupported_features_of_the_catalog(lakebed: Lakebed) -> None:
    document = lakebed("conform", "--print-unsupported-inventory").document
    refused = {entry["feature"]: entry["answer"] for entry in document["catalog_unsupported"]}
    known = [feature for feature, _, _ in (*of_catalog(), *of_management())]
    assert {"Functions (listFunctions)", "Catalogs on other stores (storageType FILE)"} <= set(known)
    assert refused == dict.fromkeys(known, "406 UnsupportedOperationException")


def test_inventory_knows_which_routes_are_served(lakebed: Lakebed) -> None:
    entries = lakebed("conform", "--print-unsupported-inventory").document["unsupported_inventory"]
    served = {entry["capability"]: entry.get("is_served") for entry in entries}
    assert {capability for capability, is_served in served.items() if is_served is not True} == {"compaction-rewrite"}


@pytest.mark.slow
def test_reports_import_no_client() -> None:
    script = (
        "import sys; from lakebed.cli import main\n"
        f"for name in {list(PRINTS)!r}: assert main(['conform', '--print-' + name]) == 0\n"
        f"print('loaded:', *sorted(sys.modules.keys() & set({CLIENTS!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_only_one_report_per_command(lakebed: Lakebed) -> None:
    assert lakebed("conform", "--print-beyond", "--print-client-matrix").status == FAILED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--profile", "unknown"), "ERROR: no such profile"),
        ((), "ERROR: LAKEBED_ACCESS_KEY is not set"),
        (("--access-key", "a", "--secret-key", "b", "--timeout", "never"), "ERROR: --timeout"),
        (("--print-vendor-profiles", "--profile", "minio-aistor"), "ERROR: profile minio-aistor needs --warehouse"),
    ],
)
def test_errors_are_one_line(lakebed: Lakebed, words: tuple[str, ...], message: str) -> None:
    outcome = lakebed("conform", *words)
    assert (outcome.status, outcome.out) == (REFUSED, "")
    assert outcome.err.startswith(message)
    assert len(outcome.err.splitlines()) == 1


def test_missing_client_error_names_the_package(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    outcome = lakebed("conform", "--access-key", "a", "--secret-key", "b")
    assert outcome.status == REFUSED
    assert "pip install 'lakebed[conform]'" in outcome.err
