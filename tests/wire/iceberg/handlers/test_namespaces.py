from __future__ import annotations

import pytest

from tests.wire.iceberg.lake import Lake


async def location_of(lake: Lake, name: str) -> str:
    found: str = (await lake.call("GET", f"/lake/namespaces/{name}")).document["properties"]["location"]
    return found


async def test_namespace_has_a_place_in_which_tables_can_be_put(lake: Lake) -> None:
    for name in (["other"], ["ns", "inner"]):
        assert (await lake.call("POST", "/lake/namespaces", {"namespace": name})).status == 200
    places = [await location_of(lake, name) for name in ("ns", "other", "ns%1Finner")]
    assert len(set(places)) == 3
    assert not any(one != other and one.startswith(f"{other}/") for one in places for other in places)
    for place in places:
        made = await lake.table(f"t{places.index(place)}", location=f"{place}/t")
        assert (made.status, made.document["metadata"]["location"]) == (200, f"{place}/t")


async def test_place_that_was_chosen_is_the_one_that_is_told(lake: Lake) -> None:
    chosen = {"namespace": ["placed"], "properties": {"location": "s3://lake/chosen"}}
    assert (await lake.call("POST", "/lake/namespaces", chosen)).status == 200
    assert await location_of(lake, "placed") == "s3://lake/chosen"
    await lake.call("POST", "/lake/namespaces/placed/properties", {"removals": ["location"]})
    assert (await location_of(lake, "placed")).startswith("s3://lake/namespaces/")


@pytest.mark.parametrize("written", ["with+blank", "with%20blank"])
async def test_blank_is_written_into_paths_as_either_client_does(lake: Lake, written: str) -> None:
    for name in (["with blank"], ["with blank", "below"], ["with+plus"]):
        assert (await lake.call("POST", "/lake/namespaces", {"namespace": name})).status == 200
    assert (await lake.call("GET", f"/lake/namespaces/{written}")).document["namespace"] == ["with blank"]
    assert (await lake.call("GET", "/lake/namespaces/with%2Bplus")).document["namespace"] == ["with+plus"]
    # As a parameter it is encoded once more, by some clients after they have encoded it for a path.
    for parameter in (written, written.replace("%", "%25").replace("+", "%2B")):
        listed = await lake.call("GET", f"/lake/namespaces?parent={parameter}")
        assert listed.document["namespaces"] == [["with blank", "below"]]
