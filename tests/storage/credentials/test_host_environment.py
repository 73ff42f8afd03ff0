"""The real host environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.core.errors import InvalidSetting, Unavailable
from lakebed.storage.credentials import HostEnvironment
from lakebed.storage.credentials.host_environment import read_text_file, run_command_line


async def test_file_is_read_and_absent_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("tëxt")
    assert await read_text_file(str(tmp_path / "file")) == "tëxt"
    assert await read_text_file(str(tmp_path / "none")) is None


async def test_file_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(Unavailable):
        await read_text_file(str(tmp_path / "file"))
    with pytest.raises(Unavailable):
        await read_text_file(str(tmp_path))


async def test_output_of_a_command_is_returned() -> None:
    assert await run_command_line("echo 'a  b'") == b"a  b\n"


async def test_command_is_not_run_by_a_shell() -> None:
    assert await run_command_line("echo $HOME ; echo") == b"$HOME ; echo\n"


async def test_failing_command_is_unavailable_without_its_output() -> None:
    with pytest.raises(Unavailable, match="exit=3") as failed:
        await run_command_line("sh -c 'echo hidden; echo hidden >&2; exit 3'")
    assert "hidden" not in str(failed.value)


@pytest.mark.parametrize("command", ["/no/such/program", "'unbalanced", ""])
async def test_command_that_cannot_start_is_an_invalid_setting(command: str) -> None:
    with pytest.raises(InvalidSetting, match="credential_process"):
        await run_command_line(command)


async def test_hanging_command_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.storage.credentials.host_environment.PROCESS_TIMEOUT_SECONDS", 0.01)
    with pytest.raises(Unavailable, match="timed out"):
        await run_command_line("sleep 600")


def test_first_non_empty_variable_is_used() -> None:
    around = HostEnvironment.of_this_machine({"A": "", "B": "b", "C": "c"})
    assert around.value("A", "B", "C") == "b"
    assert around.value("A", "NONE") == ""
    assert "'b'" not in repr(around)
