"""Logins: SASL authentications by mechanism and result, from what passes on a connection.

A broker says when it refuses a login, but not always when it accepts one: after SaslHandshake v0, and for mechanisms with several
rounds, the answer to the client's next request shows it. A broker that refuses a raw token closes the connection.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from kproxy.output.escaping import printable, well_formed
from kproxy.protocol import ApiKey
from kproxy.proxy.analyzer.series import BoundedCounter
from kproxy.session import Connection, Exchange
from kproxy.session.exchanges import peeked

SASL_APIS: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
MOST_BEGUN = 10_000
LONGEST_MECHANISM = 40  # characters
ROUNDS: Final = {
    "PLAIN": 1,
    "SCRAM-SHA-256": 2,
    "SCRAM-SHA-512": 2,
}  # SaslAuthenticate answers of a login that succeeds

ConnectionKey = tuple[int, int]  # source, number


@dataclass(slots=True)
class _Begun:
    mechanism: str
    rounds: int = 0


class Logins:
    """Counts logins by mechanism and result. At most MOST_BEGUN unfinished logins are followed."""

    def __init__(self) -> None:
        self.counts = BoundedCounter()
        self._begun: OrderedDict[ConnectionKey, _Begun] = OrderedDict()

    @property
    def has_begun(self) -> bool:
        """Whether there are logins whose result is not known yet; every exchange must then be noted."""
        return bool(self._begun)

    def note(self, connection: ConnectionKey, exchange: Exchange) -> None:
        """Note an exchange: a step of a login, or the first after it."""
        if exchange.api_key not in SASL_APIS:
            if connection in self._begun:
                self._finish(connection, "succeeded")
            return
        login = self._begin(connection, exchange.connection)
        error = None if exchange.response is None else peeked(exchange.response, "errorCode")
        if error:
            self._finish(connection, "failed")
        elif error == 0 and exchange.api_key == ApiKey.SASL_AUTHENTICATE:
            login.rounds += 1
            if login.rounds == ROUNDS.get(login.mechanism):
                self._finish(connection, "succeeded")

    def note_token(self, connection: ConnectionKey, known: Connection) -> None:
        """Note a raw token."""
        self._begin(connection, known)

    def end(self, connection: ConnectionKey) -> None:
        """Note the end of a connection."""
        if connection in self._begun:
            self._finish(connection, "not_completed")

    def _begin(self, connection: ConnectionKey, known: Connection) -> _Begun:
        """Return the unfinished login of a connection, beginning one if there is none."""
        login = self._begun.get(connection)
        if login is None:
            if len(self._begun) >= MOST_BEGUN:
                self._begun.popitem(last=False)
            mechanism = well_formed(printable(known.sasl_mechanism or "", LONGEST_MECHANISM))
            login = self._begun[connection] = _Begun(mechanism)
        return login

    def _finish(self, connection: ConnectionKey, result: str) -> None:
        self.counts.add(self._begun.pop(connection).mechanism, result)
