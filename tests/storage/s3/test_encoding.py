"""How keys and conditions are written."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidName, NotSupported
from lakebed.storage.probe import NO_CONDITIONS, Capabilities, ETagStyle
from lakebed.storage.s3.encoding import S3Encoding, is_xml_text, quote_etag, unquote_etag
from lakebed.storage.seam import IfAbsent, IfMatch, Key


def test_own_key_is_the_inverse_of_full_key() -> None:
    wire = S3Encoding("a/b/")
    assert wire.full_key(Key("c/d")) == "a/b/c/d"
    assert wire.own_key("a/b/c/d") == "c/d"


@pytest.mark.parametrize("foreign", ["other/key", "a/b/", "a/b/folder/", "a/b/x//y", "a/b"])
def test_names_that_no_key_can_have_are_not_ours(foreign: str) -> None:
    assert S3Encoding("a/b/").own_key(foreign) is None


def test_limit_of_a_key_counts_the_prefix() -> None:
    wire = S3Encoding("ü/")
    assert len(wire.full_key(Key("k" * 1021)).encode()) == 1024
    with pytest.raises(InvalidName):
        wire.full_key(Key("k" * 1022))


def test_key_that_breaks_the_rules_is_refused() -> None:
    with pytest.raises(InvalidName):
        S3Encoding().full_key(Key("a/../b"))


def test_conditions_are_written_in_the_style_that_the_store_takes() -> None:
    assert S3Encoding().put_arguments(IfAbsent()) == {"IfNoneMatch": "*"}
    assert S3Encoding().put_arguments(IfMatch("tag")) == {"IfMatch": '"tag"'}
    assert S3Encoding().complete_arguments(IfMatch("tag")) == {"IfMatch": '"tag"'}
    bare = S3Encoding(capabilities=Capabilities(True, True, ETagStyle.BARE))
    assert bare.put_arguments(IfMatch("tag")) == {"IfMatch": "tag"}
    assert S3Encoding().put_arguments(None) == {}


def test_conditions_that_the_store_ignores_are_refused() -> None:
    with pytest.raises(NotSupported):
        S3Encoding(capabilities=NO_CONDITIONS).put_arguments(IfAbsent())
    with pytest.raises(NotSupported):
        S3Encoding(capabilities=Capabilities(True, False)).complete_arguments(IfAbsent())
    assert S3Encoding(capabilities=NO_CONDITIONS).put_arguments(None) == {}
    assert S3Encoding(capabilities=NO_CONDITIONS).complete_arguments(None) == {}


def test_checksum_is_asked_for_by_name() -> None:
    wire = S3Encoding(checksum="crc64nvme")
    assert wire.put_arguments(None) == {"ChecksumAlgorithm": "CRC64NVME"}
    assert wire.checksum_field == "ChecksumCRC64NVME"
    assert S3Encoding().checksum_arguments() == {}


@given(st.text())
def test_unquoting_undoes_quoting(etag: str) -> None:
    assert unquote_etag(quote_etag(etag)) == etag


@pytest.mark.parametrize("etag", ["", '"', "bare", 'W/"weak"'])
def test_etag_without_quotes_around_it_is_kept(etag: str) -> None:
    assert unquote_etag(etag) == etag


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_that_xml_can_carry_comes_back_unchanged(text: str) -> None:
    if is_xml_text(text):
        document = f"<a>{escape(text)}</a>".encode()
        assert (ElementTree.fromstring(document).text or "") == text
