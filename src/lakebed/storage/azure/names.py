"""Blob names: those that Azure stores unaltered, and those that it lists in the order of their bytes."""

from __future__ import annotations

from ...core.errors import InvalidName


def check_blob_name(name: str) -> None:
    r"""Raise InvalidName for names that Azure may alter, so that two keys become one blob.

    The service treats `\` as `/`, and libraries drop dots at the end of a segment.
    """
    if "\\" in name:
        raise InvalidName(f"Azure blob name must not contain a backslash. name={name!r}", argument="key", value=name)
    if name.endswith(".") or "./" in name:
        raise InvalidName(
            f"segments of an Azure blob name must not end in a dot. name={name!r}", argument="key", value=name
        )


def is_listed_in_order(name: str, *, hierarchical: bool) -> bool:
    """Whether a listing has every other name on the same side of this one as the order of UTF-8 bytes.

    A hierarchical namespace lists a directory's content before siblings such as `directory-1`. Otherwise the order is
    that of UTF-16, as in Azurite, or of UTF-8: these differ only between two names with characters from U+E000.
    """
    return not hierarchical and all(character < "\ue000" for character in name)
