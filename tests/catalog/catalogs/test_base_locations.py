from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.catalog.catalogs.base_locations import (
    MAX_ALLOWED,
    MAX_PREFIX_BYTES,
    CatalogLocations,
    catalog_at,
    claim_locations,
    parse_locations,
)
from lakebed.core.errors import InvalidInput, LocationConflict
from lakebed.meta.seam import Transaction
from tests.catalog.harness import CatalogHarness


@pytest.mark.parametrize(
    ("base", "allowed", "places"),
    [
        ("s3://b", [], CatalogLocations("b", "")),
        ("s3://b/", [], CatalogLocations("b", "")),
        ("s3a://b/x", [], CatalogLocations("b", "x/")),
        ("s3://b/x/y/", ["s3://b/x/y", "s3://b/x/y/z"], CatalogLocations("b", "x/y/")),
        ("s3://b/x", ["s3://b/x10", "s3n://b/y/", "s3://b/y"], CatalogLocations("b", "x/", ("x10/", "y/"))),
        ("s3://b/x/y", ["s3://b/x"], CatalogLocations("b", "x/y/", ("x/",))),
        ("s3://b/x", ["s3://b/"], CatalogLocations("b", "x/", ("",))),
    ],
)
def test_locations_are_parsed_to_directories(base: str, allowed: list[str], places: CatalogLocations) -> None:
    assert parse_locations(base, allowed) == places


def test_claimed_directories_are_disjoint() -> None:
    assert CatalogLocations("b", "x/y/", ("x/", "z/")).claimed == ["x/", "z/"]
    assert CatalogLocations("b", "x/", ("",)).claimed == [""]
    assert CatalogLocations("b", "x/", ("x10/",)).claimed == ["x/", "x10/"]


@pytest.mark.parametrize(
    "location",
    [
        "",
        "b/x",
        "gs://b/x",
        "file:///x",
        "s3://",
        "s3:///x",
        "s3://b//x",
        "s3://b/x/../y",
        "s3://b/./x",
        "s3://b/x*",
        "s3://b/x?",
        "s3://b/.lakebed",
        "s3://b/x/.lakebed/y",
        "s3://b/x\\y",
        "s3://b/x\x1fy",
        "s3://b/\ud800",
        f"s3://b/{'x' * MAX_PREFIX_BYTES}",
    ],
)
def test_invalid_base_locations_are_rejected(location: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_locations(location, ())
    assert refused.value.argument == "default-base-location"
    with pytest.raises(InvalidInput) as refused:
        parse_locations("s3://b/base", [location])
    assert refused.value.argument == "allowedLocations"


def test_allowed_locations_share_a_bucket_and_are_limited() -> None:
    with pytest.raises(InvalidInput, match="in one bucket"):
        parse_locations("s3://b/x", ["s3://c/x"])
    with pytest.raises(InvalidInput, match="maximum="):
        parse_locations("s3://b/x", [f"s3://b/y{number}" for number in range(MAX_ALLOWED + 1)])


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=3))
def test_any_location_is_parsed_or_rejected(base: str, allowed: list[str]) -> None:
    try:
        places = parse_locations(base, allowed)
    except InvalidInput:
        return
    assert all(not one or one.endswith("/") for one in (places.base_prefix, *places.allowed))


segments = st.sampled_from(("a", "b", "a0", "a!", "é", "\U0010ffff"))
directories = st.lists(segments, max_size=3).map(lambda path: "".join(f"{segment}/" for segment in path))


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    wanted=st.lists(st.tuples(directories, st.lists(directories, max_size=2)), min_size=2, max_size=6),
    keys=st.lists(directories, max_size=6),
)
@pytest.mark.parametrize(
    "open_object_store",
    ["sqlite-memory", pytest.param("postgres-memory", marks=pytest.mark.integration)],
    indirect=True,
)
async def test_directories_of_catalogs_never_overlap(
    catalog: CatalogHarness, wanted: list[tuple[str, list[str]]], keys: list[str]
) -> None:
    meta = catalog.store.meta
    warehouse = await catalog.catalogs.find(meta, "lake")
    bucket = warehouse.bucket

    async def make(tx: Transaction) -> list[int]:
        await tx.run("DELETE FROM warehouse_locations")
        await tx.run("DELETE FROM warehouses WHERE name <> 'lake'")
        made = [
            await tx.row(
                "INSERT INTO warehouses (name, bucket, base_prefix, kind, properties, version, created_ms, updated_ms)"
                " VALUES (?, ?, '', 'INTERNAL', ?, 1, 1, 1) RETURNING id",
                f"c{number}",
                bucket.id,
                b"\x80",
            )
            for number in range(4)
        ]
        return [int(row[0]) for row in made if row is not None]

    ids = await meta.transact(make)
    held: dict[int, list[str]] = {}
    for number, (base, allowed) in enumerate(wanted):
        # the fifth and sixth move the first two
        one, places = ids[number % 4], CatalogLocations(bucket.name, base, tuple(allowed))

        async def work(tx: Transaction, one: int = one, places: CatalogLocations = places) -> None:
            await claim_locations(tx, bucket, places, one)

        others = [directory for owner, had in held.items() if owner != one for directory in had]
        taken = any(a.startswith(b) or b.startswith(a) for a in places.claimed for b in others)
        if taken:
            with pytest.raises(LocationConflict):
                await meta.transact(work)
        else:
            await meta.transact(work)
            held[one] = places.claimed
    for key in keys:
        owners = [owner for owner, had in held.items() if any(f"{key}file".startswith(directory) for directory in had)]
        found = await catalog_at(meta, bucket, f"{key}file")
        assert ([] if found is None else [found.id]) == owners
