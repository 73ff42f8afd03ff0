from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.core.jobs import JobKind, Option
from lakebed.pipeline.jobs import MODULES, find_job
from lakebed.pipeline.options import (
    BooleanOption,
    IntegerOption,
    ListOption,
    Options,
    OptionSpec,
    OptionUnit,
    RatioOption,
    TextOption,
    read_options,
)

SPECS: tuple[OptionSpec, ...] = (
    IntegerOption("count", "how many", 1),
    IntegerOption("size-bytes", "how large", 0, OptionUnit.BYTES),
    IntegerOption("age-ms", "how old", 0, OptionUnit.MILLISECONDS),
    RatioOption("ratio", "how much"),
    BooleanOption("switch", "whether"),
    TextOption("text", "what"),
    TextOption("choice", "which", choices=("a", "b")),
    ListOption("names", "who"),
)

VALUES = st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.text()))


def read(name: str, value: Option) -> Options:
    return read_options(JobKind.COMPACT, SPECS, {name: value})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", 3, 3),
        ("count", "3", 3),
        ("size-bytes", "128MiB", 128 * 2**20),
        ("size-bytes", 5, 5),
        ("age-ms", "7d", 7 * 86_400_000),
        ("age-ms", "1500", 1500),
        ("age-ms", 0, 0),
    ],
)
def test_numbers_are_parsed_with_units(name: str, value: Option, expected: int) -> None:
    assert read(name, value).number(name) == expected


def test_values_are_parsed_by_type() -> None:
    assert read("ratio", "0.25").ratio("ratio", 1.0) == 0.25
    assert read("ratio", 1).ratio("ratio", 0.5) == 1.0
    assert read("switch", "True").switch("switch")
    assert not read("switch", False).switch("switch", True)
    assert read("choice", " B ").text("choice") == "b"
    assert read("names", "a, b").names("names") == ["a", "b"]
    assert read("names", ["x"]).names("names") == ["x"]


def test_absent_options_are_none_or_the_default() -> None:
    nothing = read_options(JobKind.COMPACT, SPECS, {})
    assert (nothing.number("count"), nothing.text("text"), nothing.names("names")) == (None, None, None)
    assert nothing.ratio("ratio", 0.3) == 0.3
    assert nothing.switch("switch", True)
    assert "count" not in nothing


def test_values_are_passed_in_the_form_of_iceberg() -> None:
    assert read("switch", True).as_text("switch") == "true"
    assert read("size-bytes", "1KiB").as_text("size-bytes") == "1024"
    assert read("names", "a").as_text("names") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 0),
        ("count", True),
        ("count", 1.5),
        ("count", "many"),
        ("size-bytes", "large"),
        ("age-ms", -1),
        ("ratio", 0),
        ("ratio", "nan"),
        ("ratio", True),
        ("switch", "perhaps"),
        ("switch", 1),
        ("text", "  "),
        ("choice", "c"),
        ("names", ""),
        ("names", []),
        ("names", 3),
    ],
)
def test_invalid_value_error_names_the_option(name: str, value: Option) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(name, value)
    assert caught.value.argument == name
    assert f"compact-table: {name} expects" in str(caught.value)


def test_unknown_option_error_suggests_the_nearest() -> None:
    with pytest.raises(InvalidInput, match="option=cuont nearest=count") as caught:
        read("cuont", 1)
    assert caught.value.argument == "cuont"
    with pytest.raises(InvalidInput, match="options=count,size-bytes"):
        read("something-else-altogether", 1)


@given(name=st.sampled_from([spec.name for spec in SPECS]), value=VALUES)
def test_any_value_is_parsed_or_rejected_and_parsed_ones_round_trip(name: str, value: Option) -> None:
    try:
        options = read(name, value)
    except InvalidInput:
        return
    again = options._values[name]
    assert read(name, again)._values[name] == again


@pytest.mark.parametrize("kind", list(JobKind))
def test_every_job_kind_has_a_definition(kind: JobKind) -> None:
    job = find_job(kind)
    assert job.kind is kind
    assert len({spec.name for spec in job.options}) == len(job.options)
    assert all(spec.text and spec.expected for spec in job.options)
    with pytest.raises(InvalidInput, match=f"unknown option of {kind}. option=no-such-option"):
        job.check({"no-such-option": 1})


def test_every_job_module_defines_a_job() -> None:
    assert set(MODULES) == set(JobKind)
