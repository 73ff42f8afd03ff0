"""The composition root: wires settings, stores, services and wire protocols, and runs the server's processes."""

from .processes.supervisor import run

__all__ = ["run"]
