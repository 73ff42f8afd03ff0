"""Listeners as packages of others offer them."""

from __future__ import annotations

from lakebed.governance.listeners import Intent


class Plain:
    """Answers at once, and is asked about all."""

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


class Deaf:
    pass


def make() -> Plain:
    return Plain()


ready = Plain()
