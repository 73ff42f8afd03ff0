"""Listeners in Python, by name: `package.module:attribute`, or the name of an entry point of an installed package."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.operations import Operation, parse_operations

from .model import Intent, Listener, PlainListener

ENTRY_POINT_GROUP: Final = "lakebed.listeners"
"""The group of entry points that packages offer listeners under."""

_EVERYTHING: Final = ("*",)


class PythonListener:
    """Somebody else's object, asked as listeners are."""

    __slots__ = ("_listener", "name", "operations")

    def __init__(self, name: str, listener: PlainListener, operations: frozenset[Operation]) -> None:
        self.name = name
        self.operations = operations
        self._listener = listener

    async def before(self, intent: Intent) -> str | None:
        """What the object says, at once or later."""
        answer = self._listener.before(intent)
        return await answer if inspect.isawaitable(answer) else answer


def load_listener(name: str, points: Iterable[EntryPoint] | None = None) -> Listener:
    """The listener of that name; a class or function is called for it once. Raises InvalidSetting.

    Whoever can write the settings runs code in the server by this, as by installing a package.
    """
    found = _found(name, points)
    if inspect.isclass(found) or inspect.isfunction(found):
        try:
            found = found()
        except Exception as error:
            raise _refusal(name, f"could not be made: {type(error).__name__}: {error}") from error
    if not isinstance(found, PlainListener):
        raise _refusal(name, "has no method `before`")
    try:
        operations = parse_operations(getattr(found, "operations", _EVERYTHING))
    except (InvalidInput, TypeError, AttributeError) as error:
        raise _refusal(name, f"its operations cannot be read: {error}") from error
    return PythonListener(name, found, operations)


def _found(name: str, points: Iterable[EntryPoint] | None) -> Any:  # Any: whatever somebody else's module holds
    try:
        if ":" not in name:
            offered = {
                point.name: point for point in (entry_points(group=ENTRY_POINT_GROUP) if points is None else points)
            }
            if name not in offered:
                known = ", ".join(sorted(offered)) or "none"
                raise _refusal(
                    name, f"no entry point of {ENTRY_POINT_GROUP}, and no `package.module:attribute`. known={known}"
                )
            return offered[name].load()
        module, _, attribute = name.partition(":")
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except InvalidSetting:
        raise
    except Exception as error:
        # Importing runs somebody else's code, which may raise anything.
        raise _refusal(name, f"cannot be loaded: {type(error).__name__}: {error}") from error
    return found


def _refusal(name: str, message: str) -> InvalidSetting:
    return InvalidSetting(f"listeners.python: {name}: {message}", argument="listeners.python")
