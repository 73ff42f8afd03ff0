from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from lakebed.core.errors import MissingExtra
from lakebed.core.extras import EXTRAS, require_extra, require_modules

_BUNDLES: Final = {"all", "targets"}
_PROJECT: Final = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
_DECLARED: Final[dict[str, list[str]]] = _PROJECT["optional-dependencies"]


def _distributions(extra: str) -> set[str]:
    """The distributions of an extra in `pyproject.toml`, including those of bundled extras."""
    found: set[str] = set()
    for requirement in _DECLARED[extra]:
        name, bundled = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?.*", requirement).groups()  # type: ignore[union-attr]
        if name == "lakebed":
            found.update(*map(_distributions, bundled.split(",")))
        else:
            found.add(_canonical(name))
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_modules_of_an_extra_match_its_distributions(extra: str) -> None:
    by_module = importlib.metadata.packages_distributions()
    brought = [{_canonical(name) for name in by_module[module.partition(".")[0]]} for module in EXTRAS[extra]]
    declared = _distributions(extra)
    # A namespace such as `google` belongs to several distributions.
    assert all(names & declared for names in brought), brought
    assert declared <= set().union(*brought)


def test_every_extra_is_known_and_bundled_in_all() -> None:
    assert _DECLARED.keys() - _BUNDLES == EXTRAS.keys()
    assert _distributions("all") == set().union(*map(_distributions, EXTRAS))


def test_installed_extra_is_accepted() -> None:
    for extra in EXTRAS:
        require_extra(extra, "the test")


@pytest.mark.parametrize(
    ("extra", "module"), [("streams", "google.protobuf"), ("pipeline", "numpy"), ("s3", "botocore")]
)
def test_missing_extra_error_names_feature_and_modules(
    monkeypatch: pytest.MonkeyPatch, extra: str, module: str
) -> None:
    for name in [name for name in sys.modules if name == module or name.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra) as caught:
        require_extra(extra, "the test")
    assert str(caught.value) == f"the test needs the extra: pip install 'lakebed[{extra}]' (missing: {module})"


def test_module_of_an_uninstalled_package_is_missing() -> None:
    with pytest.raises(
        MissingExtra, match=r"^a target needs a library: pip install nothing \(missing: nothing\.at\.all\)$"
    ):
        require_modules(("nothing.at.all",), "nothing", "a target")
