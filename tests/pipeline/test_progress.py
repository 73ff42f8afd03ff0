from __future__ import annotations

import io

from lakebed.pipeline.progress import Silent, shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_written_to_what_is_no_terminal() -> None:
    output = io.StringIO()
    with shown(output) as progress:
        assert isinstance(progress, Silent)
        progress.stage("compacting")
        progress.tasks(1, 2)
    assert output.getvalue() == ""


def test_terminal_shows_what_is_done_and_how_far() -> None:
    output = Terminal()
    with shown(output) as progress:
        progress.stage("compacting")
        progress.tasks(3, 7)
    assert "compacting" in output.getvalue()
    assert "3/7" in output.getvalue()
