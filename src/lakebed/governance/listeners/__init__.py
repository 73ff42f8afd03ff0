"""Those who are asked before an operation, and may veto it."""

from .asking import Listeners
from .hook import HookPolicy, HttpHook, OnFailure
from .loading import GROUP, load_listener
from .model import Intent, Listener, PlainListener

__all__ = [
    "GROUP",
    "HookPolicy",
    "HttpHook",
    "Intent",
    "Listener",
    "Listeners",
    "OnFailure",
    "PlainListener",
    "load_listener",
]
