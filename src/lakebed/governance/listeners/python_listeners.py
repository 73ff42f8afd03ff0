"""Loads Python listeners by `package.module:attribute` or by the name of an entry point."""

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
"""The entry point group of listeners."""

_EVERYTHING: Final = ("*",)


class PythonListener:
    """Adapts a third-party object to `Listener`."""

    __slots__ = ("_listener", "name", "operations")

    def __init__(self, name: str, listener: PlainListener, operations: frozenset[Operation]) -> None:
        self.name = name
        self.operations = operations
        self._listener = listener

    async def before(self, intent: Intent) -> str | None:
        """Call the object; await the result if necessary."""
        answer = self._listener.before(intent)
        return await answer if inspect.isawaitable(answer) else answer


def load_listener(name: str, points: Iterable[EntryPoint] | None = None) -> Listener:
    """Load a listener; a class or function is called once. Raises InvalidSetting.

    So permission to write the settings is permission to run code, as is installing a package.
    """
    found = _load(name, points)
    if inspect.isclass(found) or inspect.isfunction(found):
        try:
            found = found()
        except Exception as error:
            raise _refusal(name, f"cannot be created: {type(error).__name__}: {error}") from error
    if not isinstance(found, PlainListener):
        raise _refusal(name, "has no method `before`")
    try:
        operations = parse_operations(getattr(found, "operations", _EVERYTHING))
    except (InvalidInput, TypeError, AttributeError) as error:
        raise _refusal(name, f"invalid operations: {error}") from error
    return PythonListener(name, found, operations)


def _load(name: str, points: Iterable[EntryPoint] | None) -> Any:  # Any: third-party object
    try:
        if ":" not in name:
            available = {
                point.name: point for point in (entry_points(group=ENTRY_POINT_GROUP) if points is None else points)
            }
            if name not in available:
                known = ", ".join(sorted(available)) or "none"
                raise _refusal(
                    name, f"neither an entry point of {ENTRY_POINT_GROUP} nor `package.module:attribute`. known={known}"
                )
            return available[name].load()
        module, _, attribute = name.partition(":")
        found = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except InvalidSetting:
        raise
    except Exception as error:
        # Imported third-party code can raise anything.
        raise _refusal(name, f"cannot be loaded: {type(error).__name__}: {error}") from error
    return found


def _refusal(name: str, message: str) -> InvalidSetting:
    return InvalidSetting(f"listeners.python: {name}: {message}", argument="listeners.python")
