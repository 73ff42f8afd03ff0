from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from lakebed.core.settings import HostPort, Settings

from .conftest import Lakebed


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings that the server was started with."""
    started: list[Settings] = []
    monkeypatch.setattr("lakebed.server.run", lambda settings, read_again: started.append(settings), raising=False)
    return started


def test_flags_become_settings_of_the_server(lakebed: Lakebed, served: list[Settings]) -> None:
    words = ("--data", "here", "--listen", "127.0.0.1:0", "--workers", "3", "--set", "objects.inline_max=0")
    assert lakebed("serve", *words).status == 0
    (settings,) = served
    assert settings.server.data == Path("here")
    assert settings.server.listen == HostPort("127.0.0.1", 0)
    assert settings.server.workers == 3
    assert settings.objects.inline_max == 0
    assert not settings.server.insecure_http


def test_listening_beyond_this_machine_needs_tls_or_a_word(lakebed: Lakebed, served: list[Settings]) -> None:
    outcome = lakebed("serve", "--listen", "0.0.0.0:9000")
    assert outcome.status == FAILED
    assert "--insecure-http" in outcome.err
    assert served == []
    assert lakebed("serve", "--listen", "0.0.0.0:9000", "--insecure-http").status == 0
    assert len(served) == 1


def test_the_server_s_exit_status_is_the_command_s(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.server.run", lambda settings, read_again: 3, raising=False)
    assert lakebed("serve").status == 3
