"""The name of a stream server, which rows of logs refer to: it stays the same, or the server does not start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakebed.core.errors import Corrupted
from lakebed.streams.servers.identity import establish_server_name


def test_it_is_on_stable_storage_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for call in ("fdatasync", "replace", "fsync"):
        real = getattr(os, call)

        def noted(*arguments: Any, _call: str = call, _real: Any = real) -> Any:
            done.append(_call)
            return _real(*arguments)

        monkeypatch.setattr(os, call, noted)
    name = establish_server_name(tmp_path)
    assert done == ["fdatasync", "replace", "fsync"]
    assert establish_server_name(tmp_path) == name


def test_a_name_that_was_lost_is_not_replaced(tmp_path: Path) -> None:
    establish_server_name(tmp_path)
    (tmp_path / "server-name").write_bytes(b"")
    with pytest.raises(Corrupted, match="streams status"):
        establish_server_name(tmp_path)
