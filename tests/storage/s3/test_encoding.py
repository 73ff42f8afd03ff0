"""Encoding of keys and conditions."""

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


@pytest.mark.parametrize("invalid", ["other/key", "a/b/", "a/b/folder/", "a/b/x//y", "a/b"])
def test_invalid_keys_in_the_bucket_are_ignored(invalid: str) -> None:
    assert S3Encoding("a/b/").own_key(invalid) is None


def test_key_limit_includes_the_prefix() -> None:
    wire = S3Encoding("ü/")
    assert len(wire.full_key(Key("k" * 1021)).encode()) == 1024
    with pytest.raises(InvalidName):
        wire.full_key(Key("k" * 1022))


def test_invalid_key_is_rejected() -> None:
    with pytest.raises(InvalidName):
        S3Encoding().full_key(Key("a/../b"))


def test_conditions_use_the_etag_style_of_the_store() -> None:
    assert S3Encoding().put_arguments(IfAbsent()) == {"IfNoneMatch": "*"}
    assert S3Encoding().put_arguments(IfMatch("tag")) == {"IfMatch": '"tag"'}
    assert S3Encoding().complete_arguments(IfMatch("tag")) == {"IfMatch": '"tag"'}
    bare = S3Encoding(capabilities=Capabilities(True, True, ETagStyle.BARE))
    assert bare.put_arguments(IfMatch("tag")) == {"IfMatch": "tag"}
    assert S3Encoding().put_arguments(None) == {}


def test_unsupported_conditions_are_rejected() -> None:
    with pytest.raises(NotSupported):
        S3Encoding(capabilities=NO_CONDITIONS).put_arguments(IfAbsent())
    with pytest.raises(NotSupported):
        S3Encoding(capabilities=Capabilities(True, False)).complete_arguments(IfAbsent())
    assert S3Encoding(capabilities=NO_CONDITIONS).put_arguments(None) == {}
    assert S3Encoding(capabilities=NO_CONDITIONS).complete_arguments(None) == {}


def test_checksum_is_requested_by_name() -> None:
    wire = S3Encoding(checksum="crc64nvme")
    assert wire.put_arguments(None) == {"ChecksumAlgorithm": "CRC64NVME"}
    assert wire.checksum_field == "ChecksumCRC64NVME"
    assert S3Encoding().checksum_arguments() == {}


@given(st.text())
def test_unquoting_undoes_quoting(etag: str) -> None:
    assert unquote_etag(quote_etag(etag)) == etag


@pytest.mark.parametrize("etag", ["", '"', "bare", 'W/"weak"'])
def test_bare_etag_is_unchanged(etag: str) -> None:
    assert unquote_etag(etag) == etag


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_xml_text_round_trips(text: str) -> None:
    if is_xml_text(text):
        document = f"<a>{escape(text)}</a>".encode()
        assert (ElementTree.fromstring(document).text or "") == text
