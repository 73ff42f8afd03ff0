"""Commands in README.md and docs/*.md work as printed, or are marked with the reason why they are not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .blocks import DOCUMENTS, REPOSITORY, Block, read_blocks
from .user import User

_AWS = "aws --endpoint-url http://127.0.0.1:9000"
_SERVER = ("lakebed serve",)
_LAKE = (f"{_AWS} s3 mb s3://lake", "lakebed table enable-bucket lake")

PREPARED = {
    "docs/api.md": (*_SERVER, *_LAKE),
    "docs/check-storage.md": (*_SERVER, *_LAKE),
    "docs/compaction-service.md": (*_SERVER, "lakebed user create compaction"),
    "docs/delegation.md": (*_SERVER, *_LAKE),
    "docs/events.md": (
        *_SERVER,
        *_LAKE,
        f"{_AWS} s3 mb s3://sales",
        f"{_AWS} s3 mb s3://landing",
        "lakebed events target put warehouse:webhook --option endpoint=http://127.0.0.1:9/",
    ),
    "docs/select.md": (
        *_SERVER,
        f"{_AWS} s3 mb s3://data",
        f"{_AWS} s3 mb s3://logs",
        f"""echo '{{"level": "info"}}' | {_AWS} s3 cp - s3://logs/2026/01/one.jsonl""",
    ),
    "docs/storage.md": ("lakebed serve --data ./data",),
    "docs/tokens.md": (*_SERVER, *_LAKE),
}
"""Commands before those of documents that do not start with a server."""

_RUN = [document for document in DOCUMENTS if any(b.is_runnable and b.reason is None for b in read_blocks(document))]


def _name(document: Path) -> str:
    return str(document.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_command_blocks_are_marked_as_shell(document: Path) -> None:
    unlabelled = [
        block.name
        for block in read_blocks(document)
        if block.looks_like_commands and not block.is_runnable and block.reason is None
    ]
    assert unlabelled == [], "fence them as sh, or say before the fence why they are not run: <!-- not run: REASON -->"


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    someone = User(tmp_path)
    yield someone
    someone.leave()


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("document", _RUN, ids=_name)
def test_documented_commands_work_in_order(document: Path, user: User) -> None:
    for command in PREPARED.get(_name(document), ()):
        user.type(user.filled_in(command))
    for block in read_blocks(document):
        if block.is_runnable and block.reason is None:
            user.run(block)


def test_markers_and_console_blocks_are_parsed(tmp_path: Path) -> None:
    document = REPOSITORY / "README.md"
    lines = [
        "<!-- not run: no server -->",
        "```sh",
        "lakebed serve",
        "```",
        "",
        "```",
        "$ one \\",
        "  two",
        "out",
        "```",
    ]
    written = tmp_path / "page.md"
    written.write_text("\n".join(lines))
    marked, console = read_blocks(written)
    assert (marked.reason, marked.is_runnable, marked.line) == ("no server", True, 2)
    assert (console.reason, console.commands) == (None, ["one    two"])
    assert Block(document, 1, "", "lakebed select …", None).looks_like_commands
    assert Block(document, 1, "bash", "select …", None).looks_like_commands
    assert not Block(document, 1, "", "tables  1", None).looks_like_commands
