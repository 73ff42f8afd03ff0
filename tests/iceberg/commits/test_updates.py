from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput
from lakebed.iceberg.commits import build_table, build_view, parse_table_updates, parse_view_updates, updates

from ..samples import NOW, UUID, action, dump, make_table, make_view
from ..test_documents import values

TABLE_ACTIONS = [
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-current-schema",
    "add-spec",
    "set-default-spec",
    "add-sort-order",
    "set-default-sort-order",
    "add-snapshot",
    "set-snapshot-ref",
    "remove-snapshots",
    "remove-snapshot-ref",
    "set-location",
    "set-properties",
    "remove-properties",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
    "add-encryption-key",
    "remove-encryption-key",
]
VIEW_ACTIONS = [
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-location",
    "set-properties",
    "remove-properties",
    "add-view-version",
    "set-current-view-version",
]


@pytest.mark.parametrize("name", TABLE_ACTIONS)
def test_every_table_action_is_supported(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"updates\[0\]: object missing required field"):
        parse_table_updates(dump([{"action": name}]))


@pytest.mark.parametrize("name", VIEW_ACTIONS)
def test_every_view_action_is_supported(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"updates\[0\]: object missing required field"):
        parse_view_updates(dump([{"action": name}]))


@pytest.mark.parametrize("name", ["", "add-column", "add-view-version", "Add-Schema"])
def test_other_actions_are_rejected(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"updates\[1\]: unknown table update\. action={name}$"):
        parse_table_updates(dump([action("remove-properties", removals=[]), {"action": name}]))


def test_table_and_view_actions_differ() -> None:
    with pytest.raises(InvalidInput, match=r"unknown view update\. action=add-snapshot"):
        parse_view_updates(dump([{"action": "add-snapshot", "snapshot": {}}]))


def test_updates_of_the_other_kind_are_not_applied() -> None:
    of_view = parse_view_updates(dump([action("set-current-view-version", view_version_id=1)]))
    with pytest.raises(InvalidInput, match="update does not apply to tables"):
        build_table(make_table(), of_view, now_ms=NOW, new_uuid=UUID)
    of_table = parse_table_updates(dump([action("set-current-schema", schema_id=0)]))
    with pytest.raises(InvalidInput, match="update does not apply to views"):
        build_view(make_view(), of_table, now_ms=NOW, new_uuid=UUID)


@pytest.mark.parametrize("written", [b"{}", b"null", b"[1]", b'[{"action":1}]', b"[{}]", b"["])
def test_invalid_update_lists_are_rejected(written: bytes) -> None:
    with pytest.raises(InvalidInput, match="updates"):
        parse_table_updates(written)


@pytest.mark.slow
@given(st.sampled_from(TABLE_ACTIONS), st.dictionaries(st.sampled_from(["schema", "spec", "snapshot"]), values))
def test_no_content_crashes_the_builder(name: str, fields: dict[str, object]) -> None:
    with suppress(InvalidInput):
        parsed = parse_table_updates(dump([{"action": name, **fields}]))
        build_table(make_table(), parsed, now_ms=NOW, new_uuid=UUID)


def test_every_update_class_is_exported() -> None:
    kinds = {
        name
        for name, value in vars(updates).items()
        if isinstance(value, type) and issubclass(value, updates.Update) and not name.startswith("_")
    }
    assert kinds <= set(updates.__all__)
