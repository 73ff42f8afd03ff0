"""Those who are asked before an operation, and may veto it."""

from .http_hook import HookPolicy, HttpHook
from .model import Intent, Listener, PlainListener
from .python_listeners import GROUP, load_listener
from .veto import Listeners

__all__ = [
    "GROUP",
    "HookPolicy",
    "HttpHook",
    "Intent",
    "Listener",
    "Listeners",
    "PlainListener",
    "load_listener",
]
