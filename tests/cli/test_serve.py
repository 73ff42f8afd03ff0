from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.cli.main import FAILED
from lakebed.core.settings import HostPort, Settings

from .conftest import Lakebed


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of started servers."""
    started: list[Settings] = []
    monkeypatch.setattr("lakebed.server.run", lambda settings, read_again: started.append(settings), raising=False)
    return started


def test_flags_become_server_settings(lakebed: Lakebed, served: list[Settings]) -> None:
    words = ("--data", "here", "--listen", "127.0.0.1:0", "--workers", "3", "--set", "objects.inline_max=0")
    assert lakebed("serve", *words).status == 0
    (settings,) = served
    assert settings.server.data == Path("here")
    assert settings.server.listen == HostPort("127.0.0.1", 0)
    assert settings.server.workers == 3
    assert settings.objects.inline_max == 0
    assert not settings.server.insecure_http


def test_non_loopback_listener_requires_tls_or_insecure_http(lakebed: Lakebed, served: list[Settings]) -> None:
    outcome = lakebed("serve", "--listen", "0.0.0.0:9000")
    assert outcome.status == FAILED
    assert "--insecure-http" in outcome.err
    assert served == []
    assert lakebed("serve", "--listen", "0.0.0.0:9000", "--insecure-http").status == 0
    assert len(served) == 1


def test_command_returns_the_server_exit_status(lakebed: Lakebed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.server.run", lambda settings, read_again: 3, raising=False)
    assert lakebed("serve").status == 3
