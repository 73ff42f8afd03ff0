"""Third-party listeners, valid and invalid."""

from __future__ import annotations

from lakebed.governance.listeners import Intent


class Plain:
    """Synchronous, for all operations."""

    def before(self, intent: Intent) -> str | None:
        return "on mondays never" if intent.name == "orders" else None


class Asynchronous:
    operations = ("DROP_*", "POLICY")

    async def before(self, intent: Intent) -> str | None:
        return "not now"


class Mistaken:
    operations = ("DROP_EVERYTHING",)

    def before(self, intent: Intent) -> str | None:
        return None


class Broken:
    def __init__(self) -> None:
        raise RuntimeError("no configuration")


class NotAListener:
    pass


def create() -> Plain:
    return Plain()


ready = Plain()
