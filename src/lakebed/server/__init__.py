"""The composition root: settings become stores, stores become services, services become edges."""

from .processes.supervisor import run

__all__ = ["run"]
