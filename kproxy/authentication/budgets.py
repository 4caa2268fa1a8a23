"""Budgets: how many logins of an address or of a user may fail. They stop guessing, and do not let one client lock out another.

Each has a number of failures to begin with, and gets one back every second. An address without any left is refused before its
token is read. A user without any left is refused at addresses from which the user has not logged in before, so that guessing its
password elsewhere cannot keep the user out. What is refused for want of a budget counts as no failure, so that a client comes in
soon after its password was corrected. Each worker has budgets of its own.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from kproxy.authentication.mechanisms import LoginFailed

GIVEN_BACK_S = 1.0  # seconds until a failure is given back
MOST_KEPT = 65_536  # addresses, users, and pairs of both; then those that were used the longest time ago are forgotten
SAID = "Authentication failed: too many failed logins"
Key = TypeVar("Key")


class Budget(Generic[Key]):
    """Failures that are left, by key.

    Args:
        size: at most, and at first; 0: no limit.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._spent: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # failures, at

    def is_left(self, key: Key, now: float) -> bool:
        """Return whether one more failure is allowed."""
        return self._size == 0 or self._spent_by(key, now) <= self._size - 1

    def spend(self, key: Key, now: float) -> None:
        """Count a failure."""
        self._spent[key] = self._spent_by(key, now) + 1, now
        self._spent.move_to_end(key)
        if len(self._spent) > MOST_KEPT:
            self._spent.popitem(last=False)

    def _spent_by(self, key: Key, now: float) -> float:
        spent, at = self._spent.get(key, (0.0, now))
        return max(0.0, spent - (now - at) / GIVEN_BACK_S)


class Budgets:
    """The budgets of one virtual cluster in one worker.

    Args:
        of_address, of_user: failures of each; 0: no limit.
        clock: seconds, monotonic.
    """

    def __init__(self, of_address: int, of_user: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._addresses: Budget[str] = Budget(of_address)
        self._users: Budget[str] = Budget(of_user)
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # address, user: has logged in

    def admit_address(self, address: str) -> None:
        """Raise LoginFailed if the address has no failure left."""
        if not self._addresses.is_left(address, self._clock()):
            raise LoginFailed("too many failed logins from this address", SAID)

    def admit_user(self, address: str, user: str) -> None:
        """Raise LoginFailed if the user has no failure left, and is not known at the address."""
        if (address, user) not in self._known and not self._users.is_left(user, self._clock()):
            raise LoginFailed("too many failed logins of this user", SAID, user)

    def note_failure(self, address: str, failure: LoginFailed) -> None:
        """Count a failure, unless it is one of the above."""
        if failure.said != SAID:
            now = self._clock()
            self._addresses.spend(address, now)
            if failure.user:
                self._users.spend(failure.user, now)

    def note_success(self, address: str, user: str) -> None:
        self._known[address, user] = None
        self._known.move_to_end((address, user))
        if len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
