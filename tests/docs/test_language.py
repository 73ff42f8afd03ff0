"""Code, tests and documents use the terms of docs/glossary.md; idioms of the project's early texts are refused."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from .language import ALLOWED, REPOSITORY, areas, hits_of

_AREAS: Final = areas()


@pytest.mark.parametrize("area", sorted(_AREAS))
def test_texts_and_names_use_the_glossary(area: str) -> None:
    hits = [hit for file in _AREAS[area] for hit in hits_of(file)]
    examples = "\n".join(f"{hit.file}:{hit.line}: {hit.words}" for hit in itertools.islice(hits, 20))
    assert not hits, f"use the terms of docs/glossary.md (tests/docs/language.py has replacements):\n{examples}"


def test_every_allowed_use_exists() -> None:
    for words, file, reason in ALLOWED:
        text = (REPOSITORY / file).read_text(encoding="utf-8").replace("_", " ").lower()
        assert words in text, f"remove the entry of {file}: {words}"
        assert reason
