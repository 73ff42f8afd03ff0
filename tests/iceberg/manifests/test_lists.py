"""Manifest lists parsed beside a parent's equal those parsed alone."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.manifests import ManifestFile, read_list, read_manifest_list
from tests.iceberg.manifests.avro_files import a_manifest, list_bytes, list_schema

lines = st.lists(
    st.builds(
        lambda name, length, number, snapshot: a_manifest(
            f"s3://lake/t/metadata/{name}.avro", length=length, sequence_number=number, added_snapshot_id=snapshot
        ),
        st.text("ab/", max_size=4),
        st.integers(1, 2**40),
        st.integers(0, 300),
        st.integers(0, 2**62),
    ),
    max_size=6,
)
versions = st.sampled_from([1, 2, 3])


class TestReadBeside:
    @given(parent=lines, before=lines, behind=lines, version=versions, parent_version=versions)
    def test_list_equals_its_parse_alone(
        self,
        parent: list[ManifestFile],
        before: list[ManifestFile],
        behind: list[ManifestFile],
        version: int,
        parent_version: int,
    ) -> None:
        beside = read_list(list_bytes(parent, version=parent_version))
        data = list_bytes([*before, *parent, *behind], version=version)
        assert read_list(data, beside).lines == read_manifest_list(data)

    @given(parent=lines, other=lines, version=versions)
    def test_list_without_shared_lines_equals_its_parse_alone(
        self, parent: list[ManifestFile], other: list[ManifestFile], version: int
    ) -> None:
        data = list_bytes(other, version=version)
        assert read_list(data, read_list(list_bytes(parent, version=version))).lines == read_manifest_list(data)

    @pytest.mark.parametrize("is_behind", [False, True])
    def test_shared_lines_are_not_decoded_again(self, *, is_behind: bool) -> None:
        old = [a_manifest(f"s3://lake/t/metadata/{number}.avro") for number in range(3)]
        new = a_manifest("s3://lake/t/metadata/new.avro")
        parent = read_list(list_bytes(old))
        found = read_list(list_bytes([*old, new] if is_behind else [new, *old]), parent).lines
        assert found == ([*old, new] if is_behind else [new, *old])
        repeated = found[:-1] if is_behind else found[1:]
        assert all(one is other for one, other in zip(repeated, parent.lines, strict=True))

    def test_equal_list_has_the_same_line_objects(self) -> None:
        data = list_bytes([a_manifest()])
        parent = read_list(data)
        assert read_list(data, parent).lines[0] is parent.lines[0]

    def test_accidental_suffix_of_the_parent_is_parsed_correctly(self) -> None:
        """The parent's line is the end of a longer line."""
        parent = read_list(list_bytes([a_manifest("z", length=5)]))
        data = list_bytes([a_manifest("s3://lake/t/\x02z", length=5)])
        assert parent.encoded
        assert read_list(data).encoded.endswith(parent.encoded)
        assert read_list(data, parent).lines == read_manifest_list(data)

    def test_list_in_several_blocks_is_parsed_completely(self) -> None:
        schema = list_schema(2)
        records = [{**a_manifest(f"m{number}")._asdict(), "manifest_path": f"m{number}"} for number in range(4)]
        for record in records:
            record["manifest_length"] = 1
        out = io.BytesIO()
        fastavro.writer(out, schema, records, sync_interval=1)
        alone = read_list(out.getvalue())
        assert alone.encoded == b""
        parent = read_list(list_bytes([a_manifest("m3", length=1)]))
        assert read_list(out.getvalue(), parent).lines == alone.lines
        assert [line.path for line in alone.lines] == ["m0", "m1", "m2", "m3"]

    def test_corrupt_list_is_rejected_as_alone(self) -> None:
        parent = read_list(list_bytes([a_manifest()]))
        data = list_bytes([a_manifest("new", content=7), a_manifest()])
        for beside in (None, parent):
            with pytest.raises(InvalidInput, match="unknown content"):
                read_list(data, beside)
