from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.model import DEFAULT_ATTRIBUTES, ObjectAttributes, pack, unpack_attributes

TEXTS = st.text(max_size=8)
ATTRIBUTES = st.builds(
    ObjectAttributes,
    content_type=TEXTS,
    headers=st.dictionaries(TEXTS, TEXTS, max_size=2),
    metadata=st.dictionaries(TEXTS, st.text(max_size=400), max_size=2),
    tags=st.text("abc", max_size=3).map(lambda keys: TagSet(tuple(Tag(key, "v") for key in sorted(set(keys))))),
    part_count=st.integers(0, 10_000),
    encrypted=st.booleans(),
    legal_hold=st.none() | st.booleans(),
)


@given(ATTRIBUTES)
def test_attributes_round_trip_repeatedly(attributes: ObjectAttributes) -> None:
    packed = pack(attributes)
    assert unpack_attributes(packed) == attributes
    assert unpack_attributes(packed) == attributes


def test_empty_attributes_are_the_shared_default() -> None:
    assert unpack_attributes(pack(ObjectAttributes())) is DEFAULT_ATTRIBUTES
    # As an encoder that does not omit defaults would store them.
    spelled = b"\x92" + pack(DEFAULT_ATTRIBUTES.content_type) + b"\x80"
    assert unpack_attributes(spelled) is DEFAULT_ATTRIBUTES
