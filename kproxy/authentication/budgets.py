"""Budgets: how many logins of an address or of a user may fail. They stop guessing, and do not let one client lock out another.

Each has a number of failures to begin with, and gets one back every second. An address without any left is refused before its
token is read. A user without any left is refused at addresses from which the user has not logged in before, so that guessing its
password elsewhere cannot keep the user out. What is refused for want of a budget counts as no failure, so that a client comes in
soon after its password was corrected. All workers share them, beyond a reload.
"""

from collections.abc import Callable
from hashlib import blake2b

from kproxy.authentication.mechanisms import LoginFailed
from kproxy.filters.contract import SharedSet, SharedTimes

GIVEN_BACK_S = 1.0  # seconds until a failure is given back
SAID = "Authentication failed: too many failed logins"
ADDRESS, USER = "address ", "user "


class Budgets:
    """The budgets of one virtual cluster.

    Args:
        of_address, of_user: failures of each; 0: no limit.
        clock: seconds, monotonic.
        times: when all failures of an address or a user are given back.
        known: digests of an address and a user that has logged in from there.
    """

    def __init__(
        self, of_address: int, of_user: int, clock: Callable[[], float], times: SharedTimes, known: SharedSet
    ) -> None:
        self._of_address = of_address
        self._of_user = of_user
        self._clock = clock
        self._times = times
        self._known = known

    def admit_address(self, address: str) -> None:
        """Raise LoginFailed if the address has no failure left."""
        if not self._is_left(ADDRESS + address, self._of_address):
            raise LoginFailed("too many failed logins from this address", SAID)

    def admit_user(self, address: str, user: str) -> None:
        """Raise LoginFailed if the user has no failure left, and is not known at the address."""
        if _digest(address, user) not in self._known and not self._is_left(USER + user, self._of_user):
            raise LoginFailed("too many failed logins of this user", SAID, user)

    def note_failure(self, address: str, failure: LoginFailed) -> None:
        """Count a failure, unless it is one of the above."""
        if failure.said != SAID:
            now = self._clock()
            self._times.move_on(ADDRESS + address, GIVEN_BACK_S, now)
            if failure.user:
                self._times.move_on(USER + failure.user, GIVEN_BACK_S, now)

    def note_success(self, address: str, user: str) -> None:
        """Remember that the user logs in from the address."""
        self._known.add(_digest(address, user))

    def _is_left(self, name: str, size: int) -> bool:
        """Return whether one more failure is allowed."""
        now = self._clock()
        return size == 0 or self._times.move_on(name, 0, now) - now <= (size - 1) * GIVEN_BACK_S


def _digest(address: str, user: str) -> str:
    """Return a short text for both: names may be longer than what can be shared."""
    return blake2b(f"{address}\0{user}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
