"""Guessing secrets is slowed down: wrong ones are counted, by client and by address.

Each has a number of mistakes to make that grows back over time. A try is charged before it is looked at and given back
when it was right, so that many at once count as many. What is counted is counted in each process of its own.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import Throttled

CLIENT_FAILURES: Final = 10
"""Wrong secrets of one client, from wherever, before it has to wait."""

ADDRESS_FAILURES: Final = 60
"""Wrong secrets from one address, of whatever clients: many may share an address, behind a proxy."""

REFILL_SECONDS: Final = 6.0
"""How long one mistake takes to be forgotten."""

_MAX_REMEMBERED: Final = 16_384


class FailureBudget:
    """Mistakes that are left, by name. Who was not heard of lately has all of them."""

    __slots__ = ("_clock", "_grows_back_seconds", "_most", "_spent")

    def __init__(self, clock: Clock, *, most: int, grows_back_seconds: float = REFILL_SECONDS) -> None:
        self._clock = clock
        self._most = most
        self._grows_back_seconds = grows_back_seconds
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: str) -> float:
        """How long until there is one to spend; 0 if there is."""
        beyond = self._spent_now(name) - (self._most - 1)
        return max(0.0, beyond * self._grows_back_seconds)

    def consume(self, name: str) -> None:
        """One less."""
        self._set(name, self._spent_now(name) + 1)

    def refund(self, name: str) -> None:
        """One more, as before it was spent."""
        self._set(name, max(0.0, self._spent_now(name) - 1))

    def _spent_now(self, name: str) -> float:
        spent, at = self._spent.get(name, (0.0, 0.0))
        return max(0.0, spent - (self._clock.monotonic() - at) / self._grows_back_seconds)

    def _set(self, name: str, spent: float) -> None:
        self._spent[name] = spent, self._clock.monotonic()
        self._spent.move_to_end(name)
        if len(self._spent) > _MAX_REMEMBERED:
            self._spent.popitem(last=False)


class LoginAttempt(NamedTuple):
    """A try that was charged."""

    client_id: str
    address: str
    charged: str
    """Whose allowance it was charged to."""


class LoginThrottle:
    """Tries at the secrets of clients.

    A client that somebody far away guesses at is not shut out where it is at home: an address from which it has come
    with the right secret has an allowance of its own.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        client_mistakes: int = CLIENT_FAILURES,
        address_mistakes: int = ADDRESS_FAILURES,
        grows_back_seconds: float = REFILL_SECONDS,
    ) -> None:
        self._clients = FailureBudget(clock, most=client_mistakes, grows_back_seconds=grows_back_seconds)
        self._addresses = FailureBudget(clock, most=address_mistakes, grows_back_seconds=grows_back_seconds)
        self._homes: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, client_id: str, address: str) -> LoginAttempt:
        """Charge a try before its secret is looked at. Raises Throttled when there were too many wrong ones."""
        # No client id and no address holds a space.
        client = f"{client_id} {address}" if (client_id, address) in self._homes else client_id
        wait = max(self._clients.wait_seconds(client), self._addresses.wait_seconds(address))
        if wait > 0:
            raise Throttled("too many wrong secrets: wait, then try again", retry_after_seconds=math.ceil(wait))
        self._clients.consume(client)
        self._addresses.consume(address)
        return LoginAttempt(client_id, address, client)

    def succeeded(self, attempt: LoginAttempt) -> None:
        """It was right, and is not held against anybody."""
        self._clients.refund(attempt.charged)
        self._addresses.refund(attempt.address)
        home = attempt.client_id, attempt.address
        self._homes[home] = None
        self._homes.move_to_end(home)
        if len(self._homes) > _MAX_REMEMBERED:
            self._homes.popitem(last=False)
