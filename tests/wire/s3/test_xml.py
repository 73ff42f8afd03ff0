from __future__ import annotations

import contextlib
from enum import StrEnum
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.wire.aws.timestamps import http_time, iso_time
from lakebed.wire.s3 import xml
from lakebed.wire.s3.xml import MalformedDocument, XmlElement, document, escape, parse_document, parse_time, url_encode

xml_characters = st.characters(codec="utf-8", exclude_characters="\ufffe\uffff", exclude_categories=["Cc"])
texts = st.text(xml_characters | st.sampled_from("&<>\"'\t\n\r%+ ="))
times = st.integers(0, 253_402_300_799_999)


@given(texts)
def test_escaped_text_round_trips(text: str) -> None:
    written = document("Root", f"<Key>{escape(text)}</Key>")
    assert parse_document(written, "Root").text_of("Key") == text
    assert ElementTree.fromstring(written)[0].text == (text or None)


def test_characters_outside_xml_become_numeric_references() -> None:
    assert escape("a\x00b\x1f\r\ufffe") == "a&#x0;b&#x1F;&#xD;&#xFFFE;"
    assert escape("tab\tand\nline") == "tab\tand\nline"


@given(st.text(st.characters(codec="utf-8")))
def test_url_encoded_text_round_trips_and_needs_no_escaping(text: str) -> None:
    encoded = url_encode(text)
    assert unquote(encoded) == text
    assert escape(encoded) == encoded
    assert encoded.isascii()


def test_url_encoding_keeps_slashes_only() -> None:
    assert url_encode("a b+c/d=e&f%é") == "a%20b%2Bc/d%3De%26f%25%C3%A9"
    assert url_encode("dt=2026-01-01/part_1.~x") == "dt%3D2026-01-01/part_1.~x"


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_random_documents_are_malformed(noise: bytes) -> None:
    for body in (noise, b"<Root><A>" + noise + b"</A></Root>"):
        try:
            assert parse_document(body, "Root").name == "Root"
        except MalformedDocument:
            continue


def test_namespaces_and_prefixes_are_ignored() -> None:
    plain = b"<Root><Key>k</Key></Root>"
    spaced = b'<Root xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\n  <Key>k</Key>\n</Root>'
    prefixed = b'<?xml version="1.0"?><s3:Root xmlns:s3="urn:x"><s3:Key>k</s3:Key></s3:Root>'
    for body in (plain, spaced, prefixed):
        assert parse_document(body, "Root").text_of("Key") == "k"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain text",
        b"<Root>",
        b"<Root></Root><Root></Root>",
        b"<Other/>",
        b"<Root>&undefined;</Root>",
        b"<!DOCTYPE Root><Root/>",
        b'<!DOCTYPE Root [<!ENTITY e "x">]><Root>&e;</Root>',
        b'<!DOCTYPE Root SYSTEM "file:///etc/passwd"><Root/>',
        '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE Root><Root/>'.encode("utf-16"),
        b"<Root>\xff</Root>",
        b"<Root>" * 33 + b"</Root>" * 33,
        b"<Root>" + b" " * xml.MAX_DOCUMENT_BYTES + b"</Root>",
    ],
)
def test_unsafe_or_invalid_documents_are_malformed(body: bytes) -> None:
    with pytest.raises(MalformedDocument):
        parse_document(body, "Root")


def test_documents_of_32_levels_are_parsed() -> None:
    assert parse_document(b"<Root>" * 32 + b"</Root>" * 32, "Root").name == "Root"


class Colour(StrEnum):
    RED = "Red"


def root(content: str) -> XmlElement:
    return parse_document(f"<Root>{content}</Root>".encode(), "Root")


def test_values_are_parsed_by_type() -> None:
    read = root(
        "<T> with spaces </T><I> -12 </I><B>True</B><C>Red</C><D>2026-01-02T03:04:05.006Z</D><L>1</L><L>2</L><E/>"
    )
    assert read.text_of("T") == " with spaces "
    assert read.int_of("I") == read.optional_int("I") == -12
    assert read.optional_bool("B") is True
    assert read.choice_of("C", Colour) is Colour.RED
    assert read.optional_time("D") == 1767323045006
    assert [item.text for item in read.all("L")] == ["1", "2"]
    assert root("<A>1</A><B> x </B>").texts() == {"A": "1", "B": " x "}
    assert read.optional_text("E") == ""
    absent = (read.optional_text("Z"), read.optional_int("Z"), read.optional_bool("Z"), read.optional_time("Z"))
    assert absent == (None, None, None, None)


def test_missing_repeated_unknown_and_wrong_values_are_malformed() -> None:
    with pytest.raises(MalformedDocument, match=r"missing. parent=Root name=A"):
        root("").text_of("A")
    with pytest.raises(MalformedDocument, match="repeated"):
        root("<A>1</A><A>1</A>").optional_int("A")
    with pytest.raises(MalformedDocument, match="repeated"):
        root("<A>1</A><A>1</A>").texts()
    with pytest.raises(MalformedDocument, match=r"unknown element. parent=Root name=B"):
        root("<A/><B/>").only("A")
    assert root("<A/>").only("A", "B").required("A").name == "A"
    for text in ("", "1.0", "1e3", "٣", "9" * 20, "0x1"):
        with pytest.raises(MalformedDocument, match="expected an integer"):
            root(f"<A>{text}</A>").int_of("A")
    with pytest.raises(MalformedDocument, match="true or false"):
        root("<A>yes</A>").optional_bool("A")
    with pytest.raises(MalformedDocument, match="unknown value"):
        root("<A>red</A>").choice_of("A", Colour)


@given(times)
def test_times_round_trip(milliseconds: int) -> None:
    assert parse_time(iso_time(milliseconds)) == milliseconds
    assert parse_time(http_time(milliseconds)) == milliseconds // 1000 * 1000


def test_times_are_formatted_as_in_s3_and_http() -> None:
    assert iso_time(1767323045006) == "2026-01-02T03:04:05.006Z"
    assert http_time(1767323045006) == "Fri, 02 Jan 2026 03:04:05 GMT"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2017-09-27", 1506470400000),
        ("2017-09-27T00:00:00", 1506470400000),
        ("2017-09-27T00:00:00.000000Z", 1506470400000),
        ("2017-09-27T02:00:00+02:00", 1506470400000),
        ("Wed, 27 Sep 2017 00:00:00 GMT", 1506470400000),
    ],
)
def test_other_time_formats_are_parsed(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20200101",
        "2020-13-01",
        "2020-01-01T25:00:00Z",
        "tomorrow",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_invalid_time_is_malformed(text: str) -> None:
    with pytest.raises(MalformedDocument, match="not a time"):
        parse_time(text)


@given(
    st.text(max_size=40) | st.text("0123456789", min_size=10, max_size=10).map(lambda d: f"{d[:4]}-{d[4:6]}-{d[6:8]}")
)
def test_random_text_is_a_time_or_malformed(text: str) -> None:
    with contextlib.suppress(MalformedDocument):
        assert iso_time(parse_time(text)).endswith("Z")


def test_public_names_exist() -> None:
    assert all(hasattr(xml, name) for name in xml.__all__)


def test_parsing_stops_at_the_first_element_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(XmlElement):
        def __init__(self, name: str) -> None:
            made.append(name)
            super().__init__(name)

    monkeypatch.setattr(xml, "XmlElement", Counted)
    body = b"<Delete>" + b"<a/>" * 2_000_000 + b"</Delete>"
    with pytest.raises(MalformedDocument, match=r"too many elements. limit=100"):
        parse_document(body, "Delete", max_elements=100)
    assert len(made) == 1 + 100
    within = b"<Delete>" + b"<a/>" * 99 + b"</Delete>"
    assert len(parse_document(within, "Delete", max_elements=100).children) == 99


@pytest.mark.parametrize(
    "markup",
    [
        b"<a " + b" ".join(b'a%x=""' % number for number in range(500_000)) + b"/>",
        b'<a b="' + b"x" * 5_000_000 + b'"/>',
        b"<!--" + b"x" * 5_000_000 + b"-->",
        b"<" + b"x" * 5_000_000,
    ],
    ids=["attributes", "attribute", "comment", "name"],
)
def test_oversized_markup_is_rejected_before_it_is_parsed_completely(markup: bytes) -> None:
    with pytest.raises(MalformedDocument, match="tag that is too long"):
        parse_document(b"<Delete>" + markup + b"</Delete>", "Delete")


@pytest.mark.parametrize("text", ["x" * 5_000_000, "\n" * 1_000_000, "&amp;" * 1_000_000], ids=["x", "lines", "amp"])
def test_long_text_is_parsed_completely(text: str) -> None:
    root = parse_document(f"<Delete><Key>{text}</Key></Delete>".encode(), "Delete")
    assert root.text_of("Key") == text.replace("&amp;", "&")


def test_text_between_elements_belongs_to_the_parent() -> None:
    root = parse_document(b"<Delete>a<Key>b</Key>c</Delete>", "Delete")
    assert (root.text, root.text_of("Key")) == ("ac", "b")
