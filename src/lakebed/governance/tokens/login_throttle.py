"""Limits failed logins by client and by address.

Each has a budget of failures that refills over time. An attempt is charged before it is verified and refunded on
success, so that concurrent attempts count too. Budgets are per process.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final, NamedTuple

from lakebed.core.clock import Clock
from lakebed.core.errors import Throttled

CLIENT_FAILURES: Final = 10
"""Failures of one client, from any address, before it is throttled."""

ADDRESS_FAILURES: Final = 60
"""Failures from one address, of any clients. Many clients can share an address behind a proxy."""

REFILL_SECONDS: Final = 6.0
"""Time to refill one failure."""

_MAX_REMEMBERED: Final = 16_384


class FailureBudget:
    """Remaining failures by name; unknown names have the full budget."""

    __slots__ = ("_clock", "_limit", "_refill_seconds", "_spent")

    def __init__(self, clock: Clock, *, limit: int, refill_seconds: float = REFILL_SECONDS) -> None:
        self._clock = clock
        self._limit = limit
        self._refill_seconds = refill_seconds
        self._spent: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: str) -> float:
        """The time until an attempt is permitted; 0 if it is now."""
        excess = self._spent_now(name) - (self._limit - 1)
        return max(0.0, excess * self._refill_seconds)

    def consume(self, name: str) -> None:
        """Charge a failure."""
        self._set(name, self._spent_now(name) + 1)

    def refund(self, name: str) -> None:
        """Undo a charge."""
        self._set(name, max(0.0, self._spent_now(name) - 1))

    def _spent_now(self, name: str) -> float:
        spent, at = self._spent.get(name, (0.0, 0.0))
        return max(0.0, spent - (self._clock.monotonic() - at) / self._refill_seconds)

    def _set(self, name: str, spent: float) -> None:
        self._spent[name] = spent, self._clock.monotonic()
        self._spent.move_to_end(name)
        if len(self._spent) > _MAX_REMEMBERED:
            self._spent.popitem(last=False)


class LoginAttempt(NamedTuple):
    """A charged attempt."""

    client_id: str
    address: str
    charged: str
    """The charged client budget."""


class LoginThrottle:
    """Limits attempts at client secrets.

    An address from which a client has logged in has its own budget for that client: guessing from elsewhere does not
    lock it out.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        client_failures: int = CLIENT_FAILURES,
        address_failures: int = ADDRESS_FAILURES,
        refill_seconds: float = REFILL_SECONDS,
    ) -> None:
        self._clients = FailureBudget(clock, limit=client_failures, refill_seconds=refill_seconds)
        self._addresses = FailureBudget(clock, limit=address_failures, refill_seconds=refill_seconds)
        self._known_addresses: OrderedDict[tuple[str, str], None] = OrderedDict()

    def begin(self, client_id: str, address: str) -> LoginAttempt:
        """Charge an attempt before its secret is verified. Raises Throttled after too many failures."""
        # Neither a client id nor an address contains a space.
        client = f"{client_id} {address}" if (client_id, address) in self._known_addresses else client_id
        wait = max(self._clients.wait_seconds(client), self._addresses.wait_seconds(address))
        if wait > 0:
            raise Throttled("too many wrong secrets: retry later", retry_after_seconds=math.ceil(wait))
        self._clients.consume(client)
        self._addresses.consume(address)
        return LoginAttempt(client_id, address, client)

    def succeeded(self, attempt: LoginAttempt) -> None:
        """Refund a successful attempt."""
        self._clients.refund(attempt.charged)
        self._addresses.refund(attempt.address)
        known = attempt.client_id, attempt.address
        self._known_addresses[known] = None
        self._known_addresses.move_to_end(known)
        if len(self._known_addresses) > _MAX_REMEMBERED:
            self._known_addresses.popitem(last=False)
