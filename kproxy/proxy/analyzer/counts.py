"""AnalysisCounts: what the analyzer counts, as AnalyzerCounts and AnalyzerSeries (messages.py). There are at most MOST_SERIES
rows of each kind; the last one is for all other names. For names that peers choose, those that send most are kept (series.pyx).
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final

from kproxy.output.bodies import Bodies
from kproxy.output.escaping import printable, well_formed
from kproxy.pipeline.output import End, Observer, Source
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.proxy.analyzer.exchange_counts import SASL_APIS, ExchangeCounts
from kproxy.proxy.analyzer.series import OTHER, BoundedCounter
from kproxy.proxy.messages import AnalyzerCounts, AnalyzerSeries
from kproxy.session import BadFrame, Connection, Event, Exchange, Gap, NotKafka, SaslToken
from kproxy.session.exchanges import peeked


class AnalysisCounts(ExchangeCounts, Observer):
    """Counts events."""

    def __init__(self) -> None:
        super().__init__()
        self.unanswered = 0
        self.events: Counter[type[Event]] = Counter()
        self.undecoded = BoundedCounter()
        self.trailing = BoundedCounter()
        self.cut = BoundedCounter()
        self.errors = BoundedCounter()
        self.throttled = BoundedCounter()
        self.throttle_ms = BoundedCounter()
        self.logins = Logins()
        self.logins_begun = self.logins.begun
        self._names = {key: api.name for key, api in facts().apis.items()}
        self._series = {
            "clients": self.clients,
            "principals": self.principals,
            "software": self.software,
            "topics": self.topics,
            "groups": self.groups,
        }

    def note_event(self, event: Event) -> None:
        self.events[type(event)] += 1
        if isinstance(event, SaslToken):
            self.logins.begin((self.source, event.connection.number), event.connection)

    def note_unusual(self, exchange: Exchange, bodies: Bodies | None) -> None:
        """See ExchangeCounts."""
        if not self.is_whole or (bodies is not None and bodies.undecoded is not None):
            self._count_frames(exchange, bodies)
        if exchange.api_key in SASL_APIS or self.logins.begun:
            self.logins.note((self.source, exchange.connection.number), exchange)
        if self.is_refused or self.latest_throttle_ms:
            for code in [] if exchange.response is None else exchange.response.error_codes():
                self.errors.add(self._name(exchange), error_name(code))
        if self.latest_throttle_ms:  # how long the broker tells the client to wait (KIP-219)
            self.throttled.add(self._name(exchange))
            self.throttle_ms.add(self._name(exchange), n=self.latest_throttle_ms)

    def _count_frames(self, event: Exchange, bodies: Bodies | None) -> None:
        """Count frames that could not be read, were cut, or have trailing bytes."""
        if event.undecoded is not None or (bodies is not None and bodies.undecoded is not None):
            self.undecoded.add(self._name(event))
        for direction, frame in (("request", event.request), ("response", event.response)):
            if frame is not None and frame.trailing:
                self.trailing.add(self._name(event), direction)
            if frame is not None and frame.cut:
                self.cut.add(self._name(event), direction)
        if event.unanswered is not None:
            self.unanswered += 1

    def message(self, at: int) -> AnalyzerCounts:
        """Return the counts of sessions; the caller adds the rest."""
        return AnalyzerCounts(
            at=at,
            exchanges=self.exchanges,
            frames=self.frames,
            undecoded=self.undecoded.rows(),
            trailing=self.trailing.rows(),
            cut=self.cut.rows(),
            unanswered=self.unanswered,
            errors=self.errors.rows(),
            throttled=self.throttled.rows(),
            throttle_ms=self.throttle_ms.rows(),
            sasl=self.logins.counts.rows(),
            gaps=self.events[Gap],
            bad_frames=self.events[BadFrame],
            not_kafka=self.events[NotKafka],
            sasl_tokens=self.events[SaslToken],
        )

    def series(self) -> list[AnalyzerSeries]:
        """Return the numbers by names from traffic, one message for each kind."""
        self.add_clients()
        messages = [AnalyzerSeries(name, series.rows()) for name, series in self._series.items()]
        return [*messages, AnalyzerSeries("lag", self.lag.rows(), is_gauge=True)]

    def limit(self, most: int, idle: float) -> None:
        """Keep at most *most* series of each kind, and end those that are idle for *idle* seconds."""
        for series in self._series.values():
            series.limit(most, idle)
        self.lag.limit(most, idle)

    def age(self, now: float) -> None:
        """End series that are idle; see Series.age."""
        self.add_clients()
        for series in self._series.values():
            series.age(now)
        self.lag.age(now)

    def start_source(self, source: Source) -> None:
        self.source = source.number

    def end(self, end: End) -> None:
        if end.side is None:
            self.forget(end.connection)
            self.logins.end((self.source, end.connection))

    def _name(self, exchange: Exchange) -> str:
        return self._names.get(-1 if exchange.api_key is None else exchange.api_key, OTHER)


MOST_BEGUN = 10_000
LONGEST_MECHANISM = 40  # characters
# SaslAuthenticate answers of a login that succeeds
ROUNDS: Final = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}

ConnectionKey = tuple[int, int]  # source, number


@dataclass(slots=True)
class _Begun:
    mechanism: str
    rounds: int = 0


class Logins:
    """Counts logins by mechanism and result. At most MOST_BEGUN unfinished logins are followed."""

    def __init__(self) -> None:
        self.counts = BoundedCounter()
        # While there is one, every exchange must be noted
        self.begun: OrderedDict[ConnectionKey, _Begun] = OrderedDict()

    def note(self, connection: ConnectionKey, exchange: Exchange) -> None:
        """Note an exchange: a step of a login, or the first after it."""
        if exchange.api_key not in SASL_APIS:
            if connection in self.begun:
                self._finish(connection, "succeeded")
            return
        login = self.begin(connection, exchange.connection)
        error = None if exchange.response is None else peeked(exchange.response, "errorCode")
        if error:
            self._finish(connection, "failed")
        elif error == 0 and exchange.api_key == ApiKey.SASL_AUTHENTICATE:
            login.rounds += 1
            if login.rounds == ROUNDS.get(login.mechanism):
                self._finish(connection, "succeeded")

    def end(self, connection: ConnectionKey) -> None:
        if connection in self.begun:
            self._finish(connection, "not_completed")

    def begin(self, connection: ConnectionKey, known: Connection) -> _Begun:
        """Return the unfinished login of a connection, beginning one if there is none."""
        login = self.begun.get(connection)
        if login is None:
            if len(self.begun) >= MOST_BEGUN:
                self.begun.popitem(last=False)
            mechanism = well_formed(printable(known.sasl_mechanism or "", LONGEST_MECHANISM))
            login = self.begun[connection] = _Begun(mechanism)
        return login

    def _finish(self, connection: ConnectionKey, result: str) -> None:
        self.counts.add(self.begun.pop(connection).mechanism, result)
