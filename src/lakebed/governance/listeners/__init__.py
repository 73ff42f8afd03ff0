"""Listeners: external code, in Python or over HTTP, that is called before operations and can veto them."""

from .http_hook import HookConfig, HttpHook
from .model import Intent, Listener, PlainListener
from .python_listeners import ENTRY_POINT_GROUP, load_listener
from .veto import Listeners

__all__ = [
    "ENTRY_POINT_GROUP",
    "HookConfig",
    "HttpHook",
    "Intent",
    "Listener",
    "Listeners",
    "PlainListener",
    "load_listener",
]
