from __future__ import annotations

import pytest

from tests.wire.iceberg.lake import Lake


async def location_of(lake: Lake, name: str) -> str:
    found: str = (await lake.call("GET", f"/lake/namespaces/{name}")).document["properties"]["location"]
    return found


async def test_default_location_of_a_namespace_accepts_tables(lake: Lake) -> None:
    for name in (["other"], ["ns", "inner"]):
        assert (await lake.call("POST", "/lake/namespaces", {"namespace": name})).status == 200
    locations = [await location_of(lake, name) for name in ("ns", "other", "ns%1Finner")]
    assert len(set(locations)) == 3
    assert not any(one != other and one.startswith(f"{other}/") for one in locations for other in locations)
    for location in locations:
        created = await lake.table(f"t{locations.index(location)}", location=f"{location}/t")
        assert (created.status, created.document["metadata"]["location"]) == (200, f"{location}/t")


async def test_chosen_location_is_returned(lake: Lake) -> None:
    chosen = {"namespace": ["placed"], "properties": {"location": "s3://lake/chosen"}}
    assert (await lake.call("POST", "/lake/namespaces", chosen)).status == 200
    assert await location_of(lake, "placed") == "s3://lake/chosen"
    await lake.call("POST", "/lake/namespaces/placed/properties", {"removals": ["location"]})
    assert (await location_of(lake, "placed")).startswith("s3://lake/namespaces/")


@pytest.mark.parametrize("written", ["with+blank", "with%20blank"])
async def test_blanks_in_paths_are_encoded_in_both_ways_of_clients(lake: Lake, written: str) -> None:
    for name in (["with blank"], ["with blank", "below"], ["with+plus"]):
        assert (await lake.call("POST", "/lake/namespaces", {"namespace": name})).status == 200
    assert (await lake.call("GET", f"/lake/namespaces/{written}")).document["namespace"] == ["with blank"]
    assert (await lake.call("GET", "/lake/namespaces/with%2Bplus")).document["namespace"] == ["with+plus"]
    # As a parameter, some clients encode it twice.
    for parameter in (written, written.replace("%", "%25").replace("+", "%2B")):
        listed = await lake.call("GET", f"/lake/namespaces?parent={parameter}")
        assert listed.document["namespaces"] == [["with blank", "below"]]
