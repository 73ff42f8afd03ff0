"""Finds idioms that docs/glossary.md replaces with terms of the field. `python -m tests.docs.language` counts them.

Names count too: an underscore separates words. ADRs, migrations and the changelog are history and stay unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

REPOSITORY: Final = Path(__file__).parents[2]
_SUFFIXES: Final = frozenset({".c", ".md", ".py", ".sql"})
_HISTORY: Final = (Path("docs/adr"), Path("CHANGELOG.md"), Path("src/lakebed/meta/schema"))
_OWN: Final = (Path("tests/docs/language.py"), Path("tests/docs/test_language.py"), Path("docs/glossary.md"))

IDIOMS: Final[dict[str, str]] = {
    r"tell|tells|told|telling": "report, notify, state, return, log",
    r"anew": "again, or a verb with re-",
    r"lets? go of|letting go of": "release, close, drop",
    r"look(?:s|ed|ing)? after|tend|tends|tended|tending|upkeep|chores?": "maintain, maintenance, periodic job",
    r"hand(?:s|ed|ing)? out": "vend, issue, return",
    r"whoever|whomever|whom|nobody|somebody|anybody": "a component: the client, the server, a worker, an operator",
    r"of one's own|of (?:his|our|your) own": "own, separate, custom",
    r"stands? for": "means, represents, replaces",
    r"comes? to be": "is created, arises",
    r"ha(?:s|ve) a say": "decides",
    r"goes with|go with": "belongs to, accompanies, matches",
    r"is there": "exists, is present, is available",
    r"ask(?:s|ed|ing)? for": "require, request, subscribe to",
    r"things?": "a noun that names them",
    r"signs? of life": "heartbeat",
    r"byte stores?": "object store, storage backend",
    r"couriers?": "target delivery",
    r"losers?": "conflicting commits or writers",
}
"""Each idiom as an expression over whole words, and what to write instead."""

ALLOWED: Final[tuple[tuple[str, str, str], ...]] = (
    ("nobody", "docs/federation.md", "a value of a connection property"),
    ("tell", "benchmarks/select/objects.py", "a method of Python's files"),
    ("told", "src/lakebed/catalog/external/notifications.py", "a database column"),
    ("nobody", "src/lakebed/catalog/external/federation/model.py", "a value of a connection property"),
    ("upkeep", "src/lakebed/catalog/maintenance/scheduler.py", "a stored lease and cursor name"),
    ("upkeep", "src/lakebed/catalog/maintenance/tasks/history.py", "database tables"),
    ("upkeep", "tests/catalog/maintenance/test_scheduler.py", "database tables"),
    ("upkeep", "tests/meta/test_targets_migration.py", "a stored cursor name"),
    ("thing", "src/lakebed/wire/s3/routes.py", "an error message of S3"),
    ("chore", "src/lakebed/wire/iceberg/handlers/diagnostics.py", "a field of the export"),
    ("nobody", "tests/wire/iceberg/test_federated_rights.py", "a value of the property lakebed.credentials-for"),
    ("tell", "src/lakebed/select/formats/avro.py", "a method of Python's files"),
    ("tell", "src/lakebed/select/output/writers.py", "a method of Python's files"),
    ("tell", "src/lakebed/select/sources/object_file.py", "a method of Python's files"),
    ("tell", "tests/contracts/stream_log.py", "a method of Arrow's sinks"),
)
"""Legitimate uses: the words, the file, and the reason, such as a quoted text or a name on the wire."""

_PATTERN: Final = re.compile(rf"\b(?:{'|'.join(IDIOMS)})\b", re.IGNORECASE)


class Hit(NamedTuple):
    """One use of an idiom."""

    file: str
    line: int
    words: str


def area_of(file: Path) -> str:
    """The test case of a file: a package, or a folder of documents."""
    parts = file.relative_to(REPOSITORY).parts
    if parts[0] == "src":
        return "/".join(parts[:3]) if len(parts) > 3 else "src/lakebed"
    if parts[0] == "tests" and len(parts) > 2:
        return f"tests/{parts[1]}"
    return parts[0] if len(parts) > 1 else "README.md and others"


def areas() -> dict[str, list[Path]]:
    """All files that are checked, by area."""
    found: dict[str, list[Path]] = {}
    roots = [REPOSITORY / name for name in ("src", "tests", "docs", "benchmarks", "examples")]
    files = [file for root in roots for file in sorted(root.rglob("*"))]
    files += sorted(REPOSITORY.glob("*.md")) + sorted(REPOSITORY.glob("*.py"))
    for file in files:
        path = file.relative_to(REPOSITORY)
        if file.suffix not in _SUFFIXES or path in _OWN or any(path.is_relative_to(past) for past in _HISTORY):
            continue
        found.setdefault(area_of(file), []).append(file)
    return found


def hits_of(file: Path) -> Iterator[Hit]:
    """The idioms in a file that are not allowed there."""
    name = str(file.relative_to(REPOSITORY))
    text = file.read_text(encoding="utf-8").replace("_", " ")
    for match in _PATTERN.finditer(text):
        words = match[0].lower()
        if not any(words == allowed and name == where for allowed, where, _ in ALLOWED):
            yield Hit(name, text.count("\n", 0, match.start()) + 1, words)


if __name__ == "__main__":
    for area, files in sorted(areas().items()):
        counts = Counter(hit.words for file in files for hit in hits_of(file))
        if counts:
            print(f'    "{area}": {counts.total()},  # {", ".join(word for word, _ in counts.most_common(5))}')
